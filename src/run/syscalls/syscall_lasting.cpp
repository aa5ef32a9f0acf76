#include "run/syscalls/syscall_lasting.h"

#include <algorithm>
#include <array>

namespace comex::syscalls {
namespace {

constexpr std::uint64_t kIoctl = 16, kSetsockopt = 54, kPrctl = 157, kIoSetup = 206, kIoSubmit = 209,
                        kSetTidAddress = 218, kSetRobustList = 273, kRseq = 334, kIoUringSetup = 425,
                        kIoUringEnter = 426, kIoUringRegister = 427;
constexpr std::uint64_t kSyscallDispatch = 59;  // of prctl
constexpr std::uint64_t kXdp = 283;             // of setsockopt
// Types of requests: disks (three), file systems, perf, random, terminals, files (three), sockets, epoll, copies of
// files, userfaultfd, name spaces.
constexpr std::array<std::uint8_t, 15> kHarmless{0x00, 0x03, 0x12, 0x15, '$',  'R',  'T', 'X',
                                                 'f',  'v',  0x89, 0x8A, 0x94, 0xAA, 0xB7};
constexpr std::uint32_t kUffdRegister = 0xC020AA00, kKvmMemory = 0x4020AE46, kKvmMemory2 = 0x40A0AE49;

std::uint32_t request_of(const Call& call) noexcept {
  return call.number == kIoctl ? static_cast<std::uint32_t>(call.arguments[1]) : 0;
}
bool is_guest_memory(const Call& call) noexcept {
  return request_of(call) == kKvmMemory || request_of(call) == kKvmMemory2;
}

}  // namespace

Keeps keeps(const Call& call) noexcept {
  switch (call.number) {
    case kIoSubmit:
    case kSetTidAddress:
    case kSetRobustList:
    case kRseq: return Keeps::addresses;
    case kIoUringSetup:
    case kIoUringEnter:
    case kIoUringRegister: return Keeps::unknown;
    case kPrctl:
      return static_cast<std::uint32_t>(call.arguments[0]) == kSyscallDispatch ? Keeps::refused : Keeps::nothing;
    default: break;
  }
  return request_of(call) == kUffdRegister || is_guest_memory(call) ? Keeps::range : Keeps::nothing;
}

bool needs_message(const Call& call) noexcept {
  return call.number == kIoUringSetup || call.number == kIoSetup || is_guest_memory(call);
}

bool may_pin(const Call& call) noexcept {
  if (call.number == kSetsockopt) return static_cast<std::uint32_t>(call.arguments[1]) == kXdp;
  if (call.number != kIoctl) return false;
  const auto type = static_cast<std::uint8_t>(request_of(call) >> 8);
  return std::find(kHarmless.begin(), kHarmless.end(), type) == kHarmless.end();
}

RangeAt range_at(const Call& call) noexcept {
  return is_guest_memory(call) ? RangeAt{24, 16} : RangeAt{0, 8};
}

}  // namespace comex::syscalls

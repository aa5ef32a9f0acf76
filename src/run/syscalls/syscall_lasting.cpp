#include "run/syscalls/syscall_lasting.h"

#include <algorithm>
#include <array>

namespace comex::syscalls {
namespace {

constexpr std::uint64_t kIoctlNumber = 16, kSetsockoptNumber = 54, kPrctlNumber = 157, kIoSetupNumber = 206,
                        kIoSubmitNumber = 209, kSetTidAddressNumber = 218, kSetRobustListNumber = 273,
                        kRseqNumber = 334, kIoUringSetupNumber = 425, kIoUringEnterNumber = 426,
                        kIoUringRegisterNumber = 427;
constexpr std::uint64_t kXdp = 283;  // of setsockopt
// Types of requests: disks (three), file systems, perf, random, terminals, files (three), sockets, epoll, copies of
// files, userfaultfd, name spaces.
constexpr std::array<std::uint8_t, 15> kHarmless{0x00, 0x03, 0x12, 0x15, '$',  'R',  'T', 'X',
                                                 'f',  'v',  0x89, 0x8A, 0x94, 0xAA, 0xB7};
constexpr std::uint32_t kUffdRegister = 0xC020AA00, kKvmMemory = 0x4020AE46, kKvmMemory2 = 0x40A0AE49;

std::uint32_t request_of(const Call& call) noexcept {
  return call.number == kIoctlNumber ? static_cast<std::uint32_t>(call.arguments[1]) : 0;
}
bool is_guest_memory(const Call& call) noexcept {
  return request_of(call) == kKvmMemory || request_of(call) == kKvmMemory2;
}

}  // namespace

Keeps keeps(const Call& call) noexcept {
  switch (call.number) {
    case kIoSubmitNumber:
    case kSetTidAddressNumber:
    case kSetRobustListNumber:
    case kRseqNumber: return Keeps::addresses;
    case kIoUringSetupNumber:
    case kIoUringEnterNumber:
    case kIoUringRegisterNumber: return Keeps::unknown;
    case kPrctlNumber:
      return static_cast<std::uint32_t>(call.arguments[0]) == kSyscallDispatch ? Keeps::refused : Keeps::nothing;
    default: break;
  }
  return request_of(call) == kUffdRegister || is_guest_memory(call) ? Keeps::range : Keeps::nothing;
}

bool needs_message(const Call& call) noexcept {
  return call.number == kIoUringSetupNumber || call.number == kIoSetupNumber || is_guest_memory(call);
}

bool may_pin(const Call& call) noexcept {
  if (call.number == kSetsockoptNumber) return static_cast<std::uint32_t>(call.arguments[1]) == kXdp;
  if (call.number != kIoctlNumber) return false;
  const auto type = static_cast<std::uint8_t>(request_of(call) >> 8);
  return std::find(kHarmless.begin(), kHarmless.end(), type) == kHarmless.end();
}

RangeAt range_at(const Call& call) noexcept {
  return is_guest_memory(call) ? RangeAt{24, 16} : RangeAt{0, 8};
}

}  // namespace comex::syscalls

#include "run/syscalls/syscall_lasting.h"

namespace comex::syscalls {
namespace {

constexpr std::uint64_t kIoctl = 16, kPrctl = 157, kIoSetup = 206, kIoSubmit = 209, kSetTidAddress = 218,
                        kSetRobustList = 273, kRseq = 334, kIoUringSetup = 425, kIoUringEnter = 426,
                        kIoUringRegister = 427;
constexpr std::uint64_t kSyscallDispatch = 59;  // of prctl
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

RangeAt range_at(const Call& call) noexcept {
  return is_guest_memory(call) ? RangeAt{24, 16} : RangeAt{0, 8};
}

}  // namespace comex::syscalls

// What the signal carries by which the keeper stops the threads of a process (run/keeper/poke.h): that it is the
// keeper's, to how many threads it was sent, and what the thread had blocked that the keeper had to open for it.
#pragma once

#include <cstdint>

namespace comex {

struct PokeValue {
  static constexpr std::uint64_t kMark = 0xC03E'0000'0000'0000;
  static constexpr std::uint64_t kBusBlocked = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kSysBlocked = std::uint64_t{1} << 33;
  static constexpr std::uint64_t of(std::uint32_t threads, bool bus_blocked, bool sys_blocked) {
    return kMark | (bus_blocked ? kBusBlocked : 0) | (sys_blocked ? kSysBlocked : 0) | threads;
  }
  static constexpr bool is(std::uint64_t value) {
    return (value & ~(std::uint64_t{UINT32_MAX} | kBusBlocked | kSysBlocked)) == kMark;
  }
  static constexpr std::uint32_t threads(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
};

}  // namespace comex

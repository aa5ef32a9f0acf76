// What the signal carries by which the keeper stops the threads of a process (run/keeper/poke.h): that it is the
// keeper's, and to how many threads it was sent.
#pragma once

#include <cstdint>

namespace comex {

struct PokeValue {
  static constexpr std::uint64_t kMark = 0xC03E'0000'0000'0000;
  static constexpr std::uint64_t of(std::uint32_t threads) { return kMark | threads; }
  static constexpr bool is(std::uint64_t value) { return (value & ~std::uint64_t{UINT32_MAX}) == kMark; }
  static constexpr std::uint32_t threads(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
};

}  // namespace comex

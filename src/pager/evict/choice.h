// The eviction policies by name.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "pager/budget.h"
#include "pager/evict/victims.h"
#include "pager/memory.h"

namespace comex {

enum class Evict : std::uint8_t { fifo, clock, two_queues };

// As users name them, in the order of the enumeration.
inline constexpr std::array<std::string_view, 3> kEvictNames = {"fifo", "clock", "2q"};

inline std::optional<Evict> parse_evict(std::string_view name) {
  for (std::size_t i = 0; i < kEvictNames.size(); ++i) {
    if (kEvictNames[i] == name) return static_cast<Evict>(i);
  }
  return std::nullopt;
}

// For a process with that share of the budget and up to `most` blocks that have a local page at one time. It keeps what
// it needs in memory of its own (Memory::own). `share` must outlive it.
std::unique_ptr<Victims> make_victims(Evict choice, Memory& memory, std::uint64_t most, const Share& share);

}  // namespace comex

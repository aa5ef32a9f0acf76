// The prefetchers by name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "pager/prefetch/prefetcher.h"

namespace comex {

enum class Prefetch : std::uint8_t { none, next, stride, readahead, leap, automatic, record };

// As users name them, in the order of the enumeration.
inline constexpr std::array<std::string_view, 7> kPrefetchNames = {"none", "next", "stride", "readahead",
                                                                   "leap", "auto", "record"};

inline std::optional<Prefetch> parse_prefetch(std::string_view name) {
  for (std::size_t i = 0; i < kPrefetchNames.size(); ++i) {
    if (kPrefetchNames[i] == name) return static_cast<Prefetch>(i);
  }
  return std::nullopt;
}

// There is one of each, for as long as the process lives. That of `record` is as `auto`: it has nothing to play.
const Prefetcher& prefetcher_of(Prefetch choice) noexcept;

}  // namespace comex

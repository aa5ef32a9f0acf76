// What processes under `comex run --profile` play: the faults of an earlier run (trace/profile.h), sorted out for
// looking things up. The keeper writes it before the first process comes in; processes only read it. It lies behind
// the rings, in the file of the room.
//
// Thread safety: it does not change. Fault path: sequence_of().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pager/prefetch/sequence.h"
#include "trace/profile.h"

namespace comex {

struct Score {
  // Each fault twice, and each page; there may be as many of these.
  static constexpr std::size_t kMostBytes = std::size_t{128} << 20;

  // Of one process. What is at an offset is so many bytes from the score's beginning.
  struct Part {
    std::uint64_t executable = 0;
    std::uint64_t arguments = 0;
    std::uint32_t pages = 0;   // that there are
    std::uint32_t length = 0;  // places, breaks among them
    std::uint32_t faults = 0;
    std::uint32_t pages_at = 0;
    std::uint32_t order_at = 0;
    std::uint32_t first_at = 0;
    std::uint32_t places_at = 0;
  };

  std::uint32_t count = 0;
  std::array<Part, Profile::kMostProcesses> parts;
};

// REQUIRES: kMostBytes are mapped there.
inline Sequence sequence_of(const Score& score, const Score::Part& part) noexcept {
  const auto* const base = reinterpret_cast<const std::byte*>(&score);
  const auto array = [&]<typename T>(T*, std::uint64_t at, std::uint64_t count) {
    const bool inside = at % alignof(T) == 0 && at + count * sizeof(T) <= Score::kMostBytes;
    return inside ? std::span(reinterpret_cast<const T*>(base + at), count) : std::span<const T>();
  };
  constexpr PageKey* kKeys = nullptr;
  constexpr std::uint32_t* kNumbers = nullptr;
  return Sequence({.pages = array(kKeys, part.pages_at, part.pages),
                   .order = array(kNumbers, part.order_at, part.length),
                   .first = array(kNumbers, part.first_at, std::uint64_t{part.pages} + 1),
                   .places = array(kNumbers, part.places_at, part.faults)});
}

}  // namespace comex

// The orders in which the paging load visits pages. None keeps a table, so that the load's own memory does not count
// against the budget that is measured.
//
// Thread safety: a PageOrder belongs to one thread; a Permutation is a value that any number of threads may read.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace comex::bench {

enum class Pattern : std::uint8_t {
  sequential,
  stride,        // every tenth page, then again from the next one on, until all have been visited
  random,        // each page once, in an order that no prefetcher can guess
  random_write,  // the same, and 30 % of the pages are written
};

inline constexpr std::array kPatterns{Pattern::sequential, Pattern::stride, Pattern::random, Pattern::random_write};

// The name on the command line and in JSON.
std::string_view to_string(Pattern pattern);
std::optional<Pattern> parse_pattern(std::string_view text);

inline bool writes(Pattern pattern) {
  return pattern == Pattern::random_write;
}

// Any bit of the result depends on every bit of `value` (the finalizer of splitmix64).
constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// The numbers below `count` in a random order that follows from the seed: a Feistel network over the next power of
// four, walked until it falls below `count`. A multiplier would do for a permutation, but its steps are all the same,
// and a prefetcher that looks for strides would find them.
class Permutation {
 public:
  // REQUIRES: count > 0.
  Permutation(std::uint64_t count, std::uint64_t seed);

  // REQUIRES: index < count.
  [[nodiscard]] std::uint64_t at(std::uint64_t index) const {
    do {
      index = shuffle(index);
    } while (index >= count_);
    return index;
  }

 private:
  static constexpr unsigned kFeistelRounds = 4;
  [[nodiscard]] std::uint64_t shuffle(std::uint64_t index) const;

  std::uint64_t count_;
  unsigned half_bits_ = 1;
  std::uint64_t half_mask_;
  std::array<std::uint64_t, kFeistelRounds> keys_{};
};

// Visits the numbers below `count`, each once.
class PageOrder {
 public:
  // REQUIRES: count > 0.
  PageOrder(Pattern pattern, std::uint64_t count, std::uint64_t seed);

  // REQUIRES: called at most `count` times.
  std::uint64_t next();

 private:
  static constexpr std::uint64_t kStride = 10;

  Pattern pattern_;
  std::uint64_t count_;
  Permutation permutation_;
  std::uint64_t index_ = 0;
  std::uint64_t stride_start_ = 0;
  std::uint64_t stride_page_ = 0;
};

}  // namespace comex::bench

// The last faults that were near no stream (prefetch/history.h), in which strides are found that are wider than that,
// several at a time.
//
// Between the faults of a wide stride come those of others, of as many streams as the program has. But if these take
// turns, as they do in C[i] = A[i * s] + B[i * s], the last fault of the same stream is some k strays back, and the one
// before it about twice as many. So a stray is compared with what lies k and 2k back, for each k: three at equal
// distances are a stride. It may be one in bytes, or else in whole pages, where bytes do not agree. Arrays that lie at
// equal distances look like a stride, too; so the narrowest one counts.
//
// That is looked at with every fault at random: some 20 comparisons, and next to never more.
//
// Thread safety: one thread. Fault path: yes; nothing is allocated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "pager/page.h"
#include "pager/prefetch/line.h"

namespace comex {

class Strays {
 public:
  static constexpr std::uint32_t kMost = 16;
  // More faults of streams in a row, and what was before has nothing to do with what comes.
  static constexpr std::uint32_t kPause = 16;

  // A fault that belongs to a stream.
  void pass() noexcept { ++passed_; }
  // Remembers the fault. If it goes on with a stride: the line from the one before, so that this one is a step on.
  std::optional<Line> add(PageNo page, std::uint32_t at_byte) noexcept {
    if (std::exchange(passed_, 0) > kPause) ring_ = {};
    const std::uint64_t here = (page.value << kPageShift) + at_byte;
    const std::optional<Line> found = find(here);
    ring_[next_++ % kMost] = here;
    return found;
  }

 private:
  static constexpr std::uint64_t kNowhere = 0;  // nobody faults there

  // 0: the newest.
  [[nodiscard]] std::uint64_t back(std::uint32_t i) const noexcept { return ring_[(next_ - 1U - i) % kMost]; }

  [[nodiscard]] std::optional<Line> find(std::uint64_t here) const noexcept {
    std::optional<Line> narrowest;
    for (std::uint32_t k = 1; k <= kMost / 2; ++k) {
      const std::uint64_t last = back(k - 1);
      // One more or less may have come between.
      for (std::uint32_t twice = 2 * k - 1; twice <= 2 * k + 1 && twice <= kMost; ++twice) {
        const std::uint64_t before = back(twice - 1);
        if (!are_nearly_equal(here - last, last - before)) continue;
        const Step step = step_of(here, last, before);
        if (step.pages == 0 || (narrowest && std::abs(narrowest->step.pages) <= std::abs(step.pages))) continue;
        narrowest = Line{PageNo{last >> kPageShift}, static_cast<std::uint32_t>(last % kPageSize), step};
      }
    }
    return narrowest;
  }
  // Of distances in bytes: whether they may be the same in pages.
  static bool are_nearly_equal(std::uint64_t a, std::uint64_t b) noexcept {
    constexpr std::uint64_t kMostApart = 2 * kPageSize;
    return a - b + kMostApart <= 2 * kMostApart;
  }
  // Of no pages: there is none.
  static Step step_of(std::uint64_t here, std::uint64_t last, std::uint64_t before) noexcept {
    const auto bytes = static_cast<std::int64_t>(here - last);
    const auto pages = static_cast<std::int64_t>((here >> kPageShift) - (last >> kPageShift));
    const auto pages_before = static_cast<std::int64_t>((last >> kPageShift) - (before >> kPageShift));
    if (before == kNowhere || std::abs(pages) > std::numeric_limits<std::int32_t>::max()) return {};
    if (here - last != last - before) return {pages == pages_before ? pages : 0};
    return std::abs(bytes) >= static_cast<std::int64_t>(kPageSize) ? Step::of(bytes) : Step{};
  }

  std::array<std::uint64_t, kMost> ring_{};  // addresses
  std::uint32_t passed_ = 0;                 // since the last
  std::uint8_t next_ = 0;                    // wraps: kMost divides 256
};
static_assert(256 % Strays::kMost == 0);

}  // namespace comex

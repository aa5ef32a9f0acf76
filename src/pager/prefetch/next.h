// The next pages of a scan, and neighbours where they turn out to be of use.
//
// Doubles the window as long as faults follow one another, and starts again when they do not: the next pages of a scan
// come in large reads. Neighbours come as long as one in eight is used; now and then a few do, to see whether that has
// changed. So random access brings next to nothing in that was not asked for.
//
// For programs that read from one end to the other, one array at a time in each thread.
#pragma once

#include "pager/prefetch/prefetcher.h"

namespace comex {

class NextPages final : public Prefetcher {
 public:
  struct Config {
    std::uint32_t first = 2;  // pages that come when a fault follows another
    std::uint32_t most = Plan::kMost;
    std::uint32_t fewest_around = 4;  // neighbours, with the page itself: powers of two
    std::uint32_t most_around = 16;
    std::uint32_t probe = 64;   // one fault in so many brings the fewest, to see
    std::uint32_t judged = 64;  // after so many pages it is judged
    std::uint32_t useful = 8;   // one in so many must be used
  };

  NextPages() noexcept = default;
  explicit NextPages(const Config& config) noexcept : config_(config) {}
  Plan plan(History& history, const Miss& miss) const noexcept override;
  void brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept override;

 private:
  std::uint32_t around(History& history) const noexcept;
  void judge(History& history, std::uint32_t pages) const noexcept;

  Config config_{};
};

}  // namespace comex

// The next pages of a scan, and neighbours where they turn out to be of use.
//
// Doubles the window as long as faults follow one another, and starts again when they do not: the next pages of a scan
// come in large reads. Neighbours (neighbours.h) come for as long as they are of use. So random access brings next to
// nothing in that was not asked for.
//
// For programs that read from one end to the other, one array at a time in each thread.
#pragma once

#include "pager/prefetch/neighbours.h"
#include "pager/prefetch/prefetcher.h"

namespace comex {

class NextPages final : public Prefetcher {
 public:
  struct Config {
    std::uint32_t first = 2;  // pages that come when a fault follows another
    std::uint32_t most = Plan::kMost;
    Neighbours neighbours{};
  };

  NextPages() noexcept = default;
  explicit NextPages(const Config& config) noexcept : config_(config) {}
  Plan plan(History& history, const Miss& miss) const noexcept override;
  void brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept override;

 private:
  Config config_{};
};

}  // namespace comex

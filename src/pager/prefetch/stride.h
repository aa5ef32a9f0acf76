// One stride per stream: two equal distances in a row are one, and the window doubles for as long as it holds. The
// first fault out of line ends it.
//
// For programs whose strides are regular to the page; for the others there is leap.
#pragma once

#include "pager/prefetch/prefetcher.h"

namespace comex {

class Strides final : public Prefetcher {
 public:
  struct Config {
    std::uint32_t first = 2;  // pages that come when a stride is seen
    std::uint32_t most = Plan::kMost;
  };

  Strides() noexcept = default;
  explicit Strides(const Config& config) noexcept : config_(config) {}
  Plan plan(History& history, const Miss& miss) const noexcept override;
  void brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept override {
    cover(history, miss, plan, brought);
  }

 private:
  Config config_{};
};

}  // namespace comex

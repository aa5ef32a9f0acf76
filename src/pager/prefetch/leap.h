// Leap (USENIX ATC 2020): follows the trend that most of the last faults agree on, and ignores the rest.
//
// A stream's window grows with the pages that were used since the last time (to the power of two above), begins with
// one page when a fault follows the trend, and shrinks to a half at most. Along the trend pages are mapped at once.
// Where there is none now, the window lies around the page with the last trend there was, so that a few faults out of
// line do not stop everything; if they go on, the window comes to nothing, and nothing is brought.
//
// Other than in the paper, histories are per thread, and of several streams in each (history.h): strides that are
// interleaved are found, too, however wide.
#pragma once

#include "pager/prefetch/prefetcher.h"

namespace comex {

class Leap final : public Prefetcher {
 public:
  struct Config {
    std::uint32_t history = Deltas::kMost;  // H: deltas that are looked at
    std::uint32_t split = 8;                // N_split: history / split of them at first
    std::uint32_t most = Plan::kMost;       // PW_max, pages
  };

  Leap() noexcept = default;
  explicit Leap(const Config& config) noexcept : config_(config) {}
  Plan plan(History& history, const Miss& miss) const noexcept override;
  // The same, whether or not that has been of use lately.
  Plan look(History& history, const Miss& miss) const noexcept;
  void brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept override;

 private:
  // The trend now, to the byte if there is one.
  [[nodiscard]] Step trend_of(const FaultStream& stream) const noexcept;
  [[nodiscard]] std::uint32_t window_of(const FaultStream& stream) const noexcept;

  Config config_{};
};

}  // namespace comex

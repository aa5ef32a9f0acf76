// Picks by itself, at every fault, and changes its mind.
//
//   a stream goes on along a trend     what comes next along it, as leap does
//   there is none that is sure, and    all of the region that the page is in (prefetch/footprints.h)
//   regions are used all over
//   there is none, the page is far     its neighbours, as long as enough of them are used
//   neither, or it was in vain         nothing
//
// What is enough follows from what reads cost on that link, as measured (Miss::one_in): where a trip is dear, more may
// be in vain. Trends are judged by the same measure, all streams of a thread together. Of pages that are mapped it is
// known only in part whether they were used; where that seems too little, what comes goes to the read buffer for a
// while, where it is seen. If it is too little indeed, no trend is followed for a while, and then for a longer one.
#pragma once

#include "pager/prefetch/leap.h"
#include "pager/prefetch/neighbours.h"
#include "pager/prefetch/prefetcher.h"

namespace comex {

class Automatic final : public Prefetcher {
 public:
  Plan plan(History& history, const Miss& miss) const noexcept override;
  void brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept override;

 private:
  Plan look(History& history, const Miss& miss) const noexcept;

  static constexpr std::uint32_t kJudged = 256;  // pages along trends, after which they are judged
  static constexpr std::uint32_t kTrusted = 16;  // so many times, having been measured
  static constexpr std::uint32_t kPause = 256;   // faults without, if they were in vain; then twice as many, and so on
  static constexpr std::uint32_t kLongest = 1 << 16;

  static void judge(Trends& trends, bool useful) noexcept;

  Leap trends_;
  Neighbours neighbours_;
};

}  // namespace comex

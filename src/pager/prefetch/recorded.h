// What an earlier run of the program did after a fault on this page: for programs whose order is the same each time,
// though nobody could guess it.
//
// A thread follows the sequence of that run (follower.h), and the pages that come next there are asked for ahead, to
// wait in the read buffer. What the sequence does not know is left to Automatic, and so are scans and strides, which it
// maps at once.
//
// It is judged by what comes of it. Where few faults are found in their place, or few pages that came were used, there
// is no looking for a while, and then for a longer one.
#pragma once

#include "pager/prefetch/automatic.h"
#include "pager/prefetch/sequence.h"

namespace comex {

class Recorded final : public Prefetcher {
 public:
  // Of the faults, one in so many must be found, or it does not fit.
  static constexpr std::uint32_t kOneIn = 8;

  // Without a sequence: as Automatic.
  constexpr Recorded() noexcept = default;
  // Plays another one. REQUIRES: no other thread is here.
  void play(const Sequence& sequence, const Anchors& anchors) noexcept {
    sequence_ = sequence;
    anchors_ = anchors;
  }

  Plan plan(History& history, const Miss& miss) const noexcept override;
  void brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept override;
  [[nodiscard]] std::optional<PageNo> listed(std::uint32_t place) const noexcept override;

 private:
  static constexpr std::uint32_t kAhead = 64;    // places: pages are asked for so long before, or up to a list more
  static constexpr std::uint32_t kJudged = 256;  // faults, and pages, after which it is judged
  static constexpr std::uint32_t kWorth = 4;     // of the pages, one in so many used is enough, however cheap a trip is
  static constexpr std::uint32_t kPause = 1024;  // faults without, if it is of no use; then twice as many, and so on
  static constexpr std::uint32_t kLongest = 1 << 16;

  // The next pages to ask for, if it is time.
  void list(const Replay& replay, Plan& plan) const noexcept;
  static void judge_place(Replay& replay, bool found) noexcept;
  static void judge(Replay& replay, bool useful) noexcept;

  Automatic automatic_;
  Sequence sequence_;
  Anchors anchors_;
};

}  // namespace comex

// Where a thread is in the faults of an earlier run.
//
// A fault is looked for near the place of the last one: what was local in one run and away in the other, and what came
// in another order, is passed over. When it has not been found there for a while (a loop begins again, another phase
// begins, or the way was lost), its places are looked at, all of them: where most of the last faults were, shortly
// before, is where it is now.
//
// Thread safety: one thread. Fault path: yes; nothing is allocated.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pager/prefetch/sequence.h"

namespace comex {

class Follower {
 public:
  using Place = Sequence::Place;

  // Moves to the place of this fault. False if it has none.
  bool go_to(PageKey page, const Sequence& sequence) noexcept;
  // Of the last fault that had one; Sequence::kNowhere.
  [[nodiscard]] Place at() const noexcept { return at_; }

 private:
  static constexpr std::uint32_t kNear = 64;    // places, before and after
  static constexpr std::uint32_t kRecent = 16;  // faults that say where this is,
  static constexpr std::uint32_t kVotes = 4;    // ... of which so many must agree
  static constexpr std::uint32_t kLost = 8;     // faults in a row that were not found
  static constexpr std::uint32_t kTry = 4;      // as long as it is lost, one fault in so many looks everywhere
  static constexpr std::size_t kPlaces = 64;    // of a page, that are looked at

  [[nodiscard]] Place near(PageKey page, const Sequence& sequence) const noexcept;
  [[nodiscard]] Place anywhere(PageKey page, const Sequence& sequence) const noexcept;

  Place at_ = Sequence::kNowhere;
  std::uint32_t missed_ = 0;  // faults in a row
  std::uint32_t next_ = 0;    // in recent_
  std::array<PageKey, kRecent> recent_{};
};

}  // namespace comex

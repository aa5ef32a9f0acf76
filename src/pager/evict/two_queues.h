// `2q`: two queues, first in, first out each. A page comes into the first, the probation queue, which is an eighth of
// what is local. If it is missed soon after it left from there, out of staging or later, it comes into the main queue,
// which a scan that passes by does not touch. For programs with a set of pages that they use again and again, and for
// loops that are larger than what may be local: of those, most stays.
//
//     first touch, or                                     missed soon after
//     missed late      ------->  [ probation, 1/8 ]  ---> away ------------> [ main, 7/8 ] ---> away
//                                        ^                                                        |
//                                        +--- missed late, or the main queue is full and -------- +
//                                             what leaves from it is missed as soon
//
// Once the main queue is full, a page that comes in pushes another out, and nothing shows which of the two is of more
// use: pages that are there and used say nothing. In a loop that is too large each page that is let in pushes one out
// that is needed a moment later, and so on: all would be missed, where most could have stayed. So only one block in
// sixteen is let in, to try, and what is pushed out for it is watched: when much less of it is missed than of what
// leaves from the probation queue, then what is in the main queue is of no use any more, and all are let in.
//
// Mark of a local page: 1 if it is in the main queue. Of one that is away: from which queue it left, and the clock
// then.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/mutex.h"
#include "pager/budget.h"
#include "pager/evict/block_queue.h"
#include "pager/evict/eviction_clock.h"
#include "pager/evict/victims.h"

namespace comex {

class TwoQueues final : public Victims {
 public:
  static constexpr unsigned kProbation = 0;
  static constexpr unsigned kMain = 1;
  static constexpr std::uint64_t kProbationShare = 8;  // one in so many of the local pages
  static constexpr std::uint32_t kSoon = EvictionClock::kTicks * 3 / 2;
  static constexpr std::uint32_t kTries = 16;

  // `share`: of the process whose pages these are.
  TwoQueues(Memory& memory, std::uint64_t most, const Share& share) noexcept;

  Mark arrive(PageNo page, std::optional<Mark> left) noexcept override;
  [[nodiscard]] unsigned queue_of(Mark mark) const noexcept override { return mark.value; }
  void admit(BlockNo block, unsigned queue) noexcept override;
  std::optional<Victim> next(bool in_vain) noexcept override;
  Mark leave(unsigned queue, std::uint64_t pages) noexcept override;
  void forget(Mark mark) noexcept override;

  // Pages in the main queue.
  [[nodiscard]] std::uint64_t in_main() const noexcept { return in_main_.load(std::memory_order_relaxed); }

 private:
  static constexpr unsigned kTimeBits = Mark::kBits - 1;
  static constexpr std::size_t kTimes = std::size_t{1} << kTimeBits;
  // Pages that left at one tick of the clock, and how many of them were missed within the next.
  struct Cohort {
    std::atomic<std::uint32_t> left{0};
    std::atomic<std::uint32_t> missed{0};
  };
  using Cohorts = std::array<Cohort, kTimes>;

  [[nodiscard]] std::uint64_t most_in_main() const noexcept {
    const std::uint64_t local = local_.load(std::memory_order_relaxed);
    return local - local / kProbationShare;
  }
  [[nodiscard]] bool may_enter(PageNo page) const noexcept;
  // REQUIRES: mutex_.
  void compare() noexcept;

  const Share& share_;
  // How many pages are local, on average: the number goes up and down as eviction sleeps and works, and a main queue
  // that did, too, would let pages in for nothing at every turn.
  std::atomic<std::uint64_t> local_{0};
  std::atomic<std::uint64_t> in_main_{0};
  std::atomic<bool> stale_{false};  // what is in the main queue is of less use than what leaves from the other
  std::array<Cohorts, kMostQueues> cohorts_;
  EvictionClock clock_;

  Mutex mutex_;  // guards the queues, and who changes local_ and the clock
  std::array<BlockQueue, kMostQueues> queues_;
  unsigned last_ = kProbation;  // that a block was taken from
};

}  // namespace comex

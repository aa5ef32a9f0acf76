// `clock`: first in, first out, but a page that was missed soon after it left stays for three further rounds when its
// turn comes, while the rest of its block leaves. For programs that use some pages far more often than others. Without
// accessed bits a round is never seen to have been of use: such a page leaves in the end, and comes back at the price
// of a fault. A loop that is larger than what may be local defeats it, as it does every clock.
//
// Mark of a local page: for how many rounds it is spared. Of one that is away: the clock when it left.
#pragma once

#include <mutex>

#include "base/mutex.h"
#include "pager/budget.h"
#include "pager/evict/block_queue.h"
#include "pager/evict/eviction_clock.h"
#include "pager/evict/victims.h"

namespace comex {

class SecondChance final : public Victims {
 public:
  static constexpr std::uint32_t kSoon = 1;  // ticks
  static constexpr std::uint8_t kRounds = 3;

  // `share`: of the process whose pages these are.
  SecondChance(Memory& memory, std::uint64_t most, const Share& share) : share_(share), blocks_(memory, most) {}

  Mark arrive(PageNo, std::optional<Mark> left) noexcept override {
    const bool soon = left && clock_.since(left->value, Mark::kBits) <= kSoon;
    return Mark{soon ? kRounds : std::uint8_t{0}};
  }
  void admit(BlockNo block, unsigned) noexcept override {
    const std::lock_guard lock(mutex_);
    blocks_.push(block);
  }
  std::optional<Victim> next(bool) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.pop();
    return block ? std::optional(Victim{*block}) : std::nullopt;
  }
  [[nodiscard]] bool spare(Mark& mark) const noexcept override {
    if (mark.value == 0) return false;
    --mark.value;
    return true;
  }
  Mark leave(unsigned, std::uint64_t pages) noexcept override {
    const std::lock_guard lock(mutex_);
    const Mark mark = Mark::of(clock_.now());
    clock_.advance(pages, share_.local());
    return mark;
  }

 private:
  const Share& share_;
  Mutex mutex_;  // guards all below, but for reading the clock
  BlockQueue blocks_;
  EvictionClock clock_;
};

}  // namespace comex

// Whether the guards of pages around one that is written to had better be lifted with its own.
//
// Pages that come together are often written to one after the other: the result of a product of matrices, the objects
// of an interpreter. Each such write is a fault, and a shootdown; one call lifts the guards of all of them for the
// price of one. But a page that is not written to after all is sent in vain when it leaves. So of some occasions the
// pages are left as they are and watched: the share of them that is written to is what the others are decided by.
//
// Thread safety: any thread; relaxed, a count lost now and then does not matter. Fault path: yes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pager/block_runs.h"
#include "pager/odds.h"

namespace comex {

class Lifts {
 public:
  // There are guarded pages around one that is written to. True: they are to be watched, not lifted.
  bool look() noexcept { return turn_.fetch_add(1, std::memory_order_relaxed) % kLook == 0; }
  void watch(BlockNo block, Slots pages, std::uint32_t count) noexcept {
    Watched& next = watched_[next_.fetch_add(1, std::memory_order_relaxed) % watched_.size()];
    next.pages.store(0, std::memory_order_relaxed);  // whoever looks meanwhile takes them for those of neither
    next.block.store(block.value, std::memory_order_relaxed);
    next.pages.store(pages, std::memory_order_relaxed);
    odds_.tried(count);
  }
  // The first write to a page that was guarded.
  void wrote(PageNo page) noexcept {
    const BlockNo block = BlockNo::of(page);
    const Slots slot = Slots{1} << (page - block.first());
    for (Watched& each : watched_) {
      if (each.block.load(std::memory_order_relaxed) != block.value) continue;
      if ((each.pages.load(std::memory_order_relaxed) & slot) == 0) continue;
      if ((each.pages.fetch_and(~slot, std::memory_order_relaxed) & slot) != 0) odds_.followed();
    }
  }
  // Of Odds::kOne: of pages that were watched, those that were written to.
  [[nodiscard]] std::uint32_t share() const noexcept { return odds_.share(); }

 private:
  // One in so many. It may take some hundred faults until the pages around one are written to: they are watched as
  // long.
  static constexpr std::uint32_t kLook = 8;
  struct Watched {
    std::atomic<std::uint32_t> block{0};
    std::atomic<Slots> pages{0};
  };

  std::array<Watched, 32> watched_;
  std::atomic<std::uint32_t> next_{0};
  std::atomic<std::uint32_t> turn_{0};
  Odds odds_;
};

}  // namespace comex

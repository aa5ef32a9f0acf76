// Read-ahead as Linux does it for swap, by virtual address (mm/swap_state.c: swap_vma_readahead, __swapin_nr_pages).
//
// The window is a power of two above the hits since the last read, two pages if there were none but the fault is next
// to the one before, and at least half of what it was. It lies ahead of a fault that is next to the one before, on
// either side, and around any other. What comes along waits in the read buffer, as it does in the swap cache.
//
// Linux has one of these for each mapping, here each thread has one. It is here to compare the others with.
#pragma once

#include "pager/prefetch/prefetcher.h"

namespace comex {

class ReadAhead final : public Prefetcher {
 public:
  struct Config {
    std::uint32_t most = 8;        // pages, with the page itself: 2^vm.page-cluster
    std::uint32_t first_hits = 4;  // that a history begins with
    std::uint32_t most_hits = 63;  // that are counted
    std::uint64_t table = 512;     // pages that a window stays within: one page table of the kernel's
  };

  ReadAhead() noexcept = default;
  explicit ReadAhead(const Config& config) noexcept : config_(config) {}
  Plan plan(History& history, const Miss& miss) const noexcept override;

 private:
  [[nodiscard]] std::uint32_t window(const FaultStream& stream, PageNo before) const noexcept;

  Config config_{};
};

}  // namespace comex

// What a program makes of small regions of memory: most of their pages, or a few here and there.
//
// A program that works in tiles (products of matrices, stencils, pages of a database) touches a region all over within
// a short time, but in an order that is no trend: a few rows at a stride, back again, the next column. Who looks at the
// distances of its faults sees noise. But the regions that it was in lately were used all over; so when it comes to
// another, all of that comes with the first page.
//
// What was brought in whole does not fault any more, and tells nothing. So one region in a few is only watched, and
// what is touched there is what the others are judged by.
//
// Thread safety: one thread. Fault path: yes; nothing is allocated.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "pager/page.h"
#include "pager/prefetch/line.h"

namespace comex {

class Footprints {
 public:
  static constexpr std::uint32_t kPages = 32;  // of a region, which begins at a multiple of that

  // A fault on a page. True: all of its region should come with it, for the region is new, and of most such regions at
  // least `enough` pages are used.
  bool touch(PageNo page, std::uint32_t enough) noexcept {
    ++now_;
    if (Region* const known = find(page)) {
      known->used |= bit(page);
      known->last = now_;
      return false;
    }
    Region& region = *std::ranges::min_element(regions_, {}, &Region::last);
    if (region.watched) learn(std::popcount(region.used) >= static_cast<int>(enough));
    const bool whole = dense_ >= kMost && ++begun_ % kWatched != 0;
    region = Region{page.value / kPages, now_, bit(page), !whole};
    return whole;
  }
  // So many pages were brought in along a trend: that is as good as if they had been touched. A stride from region to
  // region says nothing about any.
  void follow(const Line& line, std::uint32_t steps) noexcept {
    if (std::abs(line.step.pages) >= kPages) return;
    std::uint64_t number = line.first.value / kPages;
    Region* known = find(line.first);
    for (std::uint32_t i = 1; i <= steps; ++i) {
      const PageNo page = line.at(i);
      if (page.value / kPages != number) {
        number = page.value / kPages;
        known = find(page);
      }
      if (known != nullptr) known->used |= bit(page);
    }
  }

 private:
  struct Region {
    std::uint64_t number = 0;
    std::uint64_t last = 0;  // when it was touched; 0: never
    std::uint32_t used = 0;  // a bit for each page
    bool watched = false;    // nothing was brought in but what was asked for
  };
  static constexpr std::size_t kRegions = 16;           // that are known at a time
  static constexpr std::uint32_t kWatched = 16;         // one in so many is
  static constexpr std::uint32_t kWeight = 8;           // the last one counts for an eighth
  static constexpr std::uint32_t kAll = 256;            // dense_, if every region is used all over
  static constexpr std::uint32_t kMost = kAll / 8 * 5;  // ... and if most are

  static std::uint32_t bit(PageNo page) noexcept { return std::uint32_t{1} << page.value % kPages; }
  Region* find(PageNo page) noexcept {
    for (Region& region : regions_) {
      if (region.number == page.value / kPages && region.last != 0) return &region;
    }
    return nullptr;
  }
  void learn(bool dense) noexcept { dense_ = dense_ - dense_ / kWeight + (dense ? kAll / kWeight : 0); }

  std::array<Region, kRegions> regions_{};
  std::uint64_t now_ = 0;    // faults
  std::uint32_t begun_ = 0;  // regions, since most are dense
  std::uint32_t dense_ = 0;  // of regions that were watched, those that were; of kAll
};

}  // namespace comex

// What reads from a kind of link cost, as measured: the trip, and each page that comes with it. From that, how likely
// a page must be wanted to be brought along.
//
// A page that comes along costs its part of the read and the placing; one that does not, and is wanted, costs a trip
// and a fault. So one in (trip + fault) / (page + placing) must be used.
//
// Thread safety: any thread; relaxed, a measurement lost now and then does not matter. Fault path: yes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pager/usual_cost.h"

namespace comex {

class ReadCost {
 public:
  void note(std::uint32_t pages, std::uint64_t ns) noexcept {
    if (pages == 0) return;
    if (pages == 1) return trip_.note(ns);
    const std::uint64_t trip = trip_.ns();
    if (trip > 0 && ns > trip) page_.note((ns - trip) / (pages - 1));
  }
  // Of pages that come along, one in so many must be used. `otherwise`: as long as nothing has been measured.
  [[nodiscard]] std::uint32_t one_in(std::uint32_t otherwise) const noexcept {
    constexpr std::uint64_t kFault = 4'000;    // ns: delivering one, and placing its page
    constexpr std::uint64_t kPlacing = 1'000;  // ns: a page more, and evicting another for it
    constexpr std::uint32_t kMost = 16;
    const std::uint64_t trip = trip_.ns();
    const std::uint64_t page = page_.ns();
    if (trip == 0 || page == 0) return otherwise;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>((trip + kFault) / (page + kPlacing), 1, kMost));
  }
  // What one page more costs to move; that of a whole trip as long as no better is known, and of none if nothing is.
  [[nodiscard]] std::uint64_t page_ns() const noexcept { return page_.ns() > 0 ? page_.ns() : trip_.ns(); }

 private:
  UsualCost trip_;
  UsualCost page_;
};

}  // namespace comex

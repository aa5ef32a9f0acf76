// Faults of an earlier run, in their order, and where in it each page is. Made by the keeper (run/keeper/score.h) in
// memory that processes only read.
//
//   pages    the pages there are, ascending                              4 7 9
//   order    by place: the number of a page in `pages`, or kBreak        1 0 | 1 2 1
//   first    by page, and one more: its first place in `places`          0 1 4 5
//   places    of each page in turn, ascending                            1  0 3 5  4
//
// What is in it need not make sense: nothing is read beyond it, and any number that comes out names a place or a page.
//
// Thread safety: it does not change. Fault path: yes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "pager/prefetch/anchors.h"

namespace comex {

class Sequence {
 public:
  using Place = std::uint32_t;
  static constexpr Place kNowhere = UINT32_MAX;
  static constexpr std::uint32_t kBreak = UINT32_MAX;  // between the faults of one thread and those of another

  struct Parts {
    std::span<const PageKey> pages;
    std::span<const std::uint32_t> order;
    std::span<const std::uint32_t> first;
    std::span<const Place> places;
  };

  constexpr Sequence() = default;
  explicit Sequence(const Parts& parts) noexcept : parts_(parts) {
    if (parts.first.size() != parts.pages.size() + 1) parts_ = {};
  }

  [[nodiscard]] bool empty() const noexcept { return parts_.order.empty(); }
  // Whether there is a page at this place, and which.
  [[nodiscard]] const PageKey* at(std::uint64_t place) const noexcept {
    if (place >= parts_.order.size()) return nullptr;
    const std::uint32_t number = parts_.order[place];
    return number < parts_.pages.size() ? &parts_.pages[number] : nullptr;
  }
  // The places of a page.
  [[nodiscard]] std::span<const Place> places_of(PageKey page) const noexcept {
    const auto found = std::lower_bound(parts_.pages.begin(), parts_.pages.end(), page);
    if (found == parts_.pages.end() || *found != page) return {};
    const auto number = static_cast<std::size_t>(found - parts_.pages.begin());
    const std::uint32_t begin = parts_.first[number];
    const std::uint32_t end = parts_.first[number + 1];
    if (begin > end || end > parts_.places.size()) return {};
    return parts_.places.subspan(begin, end - begin);
  }
  // The first of these that is not before `place`; kNowhere.
  static Place first_from(std::span<const Place> places, std::uint64_t place) noexcept {
    const auto found = std::lower_bound(places.begin(), places.end(), place);
    return found == places.end() ? kNowhere : *found;
  }

 private:
  Parts parts_{};
};

}  // namespace comex

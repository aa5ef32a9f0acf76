// Pages at equal distances: the first, and a step from one to the next. Steps are of whole pages and, where it is known
// at which byte a page was touched, of some bytes more: the columns of a matrix are seldom a multiple of 4 KiB apart.
//
// Thread safety: a value. Fault path: yes.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "pager/page.h"

namespace comex {

struct Step {
  std::int64_t pages = 0;  // the nearest number of them; 0: there is no step
  std::int32_t bytes = 0;  // more than that, or less

  [[nodiscard]] static constexpr Step of(std::int64_t bytes) noexcept {
    constexpr std::int64_t kHalf = kPageSize / 2;
    const std::int64_t pages = (bytes + (bytes < 0 ? -kHalf : kHalf)) / static_cast<std::int64_t>(kPageSize);
    return {pages, static_cast<std::int32_t>(bytes - pages * static_cast<std::int64_t>(kPageSize))};
  }
  [[nodiscard]] constexpr std::int64_t in_bytes() const noexcept {
    return pages * static_cast<std::int64_t>(kPageSize) + bytes;
  }
  friend constexpr bool operator==(const Step&, const Step&) = default;
};

struct Line {
  PageNo first;
  std::uint32_t offset = 0;  // where in that page it begins
  Step step;

  // The page so many steps on, or back.
  [[nodiscard]] PageNo at(std::int64_t steps) const noexcept {
    if (step.bytes == 0) return first + static_cast<std::uint64_t>(steps * step.pages);
    return PageNo{((first.value << kPageShift) + offset + static_cast<std::uint64_t>(steps * step.in_bytes())) >>
                  kPageShift};
  }
  // How many steps it is to the page, up to `most`; 0: it does not lie on the line.
  [[nodiscard]] std::uint32_t steps_to(PageNo page, std::uint32_t most) const noexcept {
    const auto distance = static_cast<std::int64_t>(page - first);
    if (step.pages == 0 || distance == 0 || (distance > 0) != (step.pages > 0)) return 0;
    if (std::abs(distance) > (std::int64_t{most} + 1) * (std::abs(step.pages) + 1)) return 0;
    // Where in their pages the two are may make it one step more or less.
    const std::int64_t about =
        step.bytes == 0 ? distance / step.pages : distance * static_cast<std::int64_t>(kPageSize) / step.in_bytes();
    for (std::int64_t steps = about - 1; steps <= about + 1; ++steps) {
      if (steps > 0 && steps <= most && at(steps) == page) return static_cast<std::uint32_t>(steps);
    }
    return 0;
  }
};

}  // namespace comex

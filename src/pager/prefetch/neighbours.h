// Pages around one that is far away, for as long as enough of them turn out to be of use.
//
// They come in groups that begin at a multiple of their size, and so are in one block, and mostly in one run of frames.
// A group grows while one in so many is used, and shrinks otherwise; when there is none, a few come now and then, to
// see whether that has changed.
//
// Thread safety: a History is used by one thread at a time. Fault path: yes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pager/prefetch/prefetcher.h"

namespace comex {

struct Neighbours {
  std::uint32_t fewest = 4;  // with the page itself: powers of two
  std::uint32_t most = 16;
  std::uint32_t probe = 64;   // one fault in so many brings the fewest, to see
  std::uint32_t judged = 64;  // after so many pages it is judged

  void add_to(Plan& plan, History& history, const Miss& miss) const noexcept {
    const std::uint32_t size = history.group > 1 ? history.group : ++history.misses % probe == 0 ? fewest : 1;
    plan.stream = History::kNone;
    plan.step = {1};
    plan.before = static_cast<std::uint32_t>(miss.page.value % size);
    plan.after = size - 1 - plan.before;
    plan.mapped = false;
  }
  // That many were brought in. History::used is counted by who sees the use of them.
  void judge(History& history, std::uint32_t pages, std::uint32_t one_in) const noexcept {
    history.brought += pages;
    if (history.brought < judged) return;
    const std::uint32_t useful = history.used * one_in;
    if (useful >= history.brought) {
      history.group = std::min(most, std::max(fewest, 2 * history.group));
    } else if (2 * useful < history.brought) {
      history.group = history.group > fewest ? history.group / 2 : 0;
    }
    history.brought = history.used = 0;
  }
};

}  // namespace comex

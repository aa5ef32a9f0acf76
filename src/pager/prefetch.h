// What to bring in with a page that was faulted on: the prefetchers' interface, and the simplest of them.
//
// A prefetcher sees the faults of one thread, in its History, and answers how many of the pages that follow should come
// along. Those that are not where the page itself is are left out by the pager.
//
// Thread safety: a prefetcher has no state of its own; a History belongs to one thread. Fault path: yes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pager/page.h"

namespace comex {

// What is remembered of a thread's faults.
struct History {
  PageNo expected;           // the page after the last that was brought in
  std::uint32_t window = 0;  // how many came along with it
};

class Prefetcher {
 public:
  virtual ~Prefetcher() = default;
  // How many pages after `page` should come along, at most `most`.
  virtual std::uint32_t along(History& history, PageNo page, std::uint32_t most) const noexcept = 0;
};

// Doubles the window as long as faults follow one another, and starts again when they do not: the next pages of a scan
// come in large reads, and random access brings nothing in that was not asked for.
class NextPages final : public Prefetcher {
 public:
  std::uint32_t along(History& history, PageNo page, std::uint32_t most) const noexcept override {
    const bool follows = page == history.expected;
    history.window = follows ? std::min(most, std::max(2U, 2 * history.window)) : 0;
    return history.window;
  }
};

}  // namespace comex

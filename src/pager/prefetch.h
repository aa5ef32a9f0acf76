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
  std::uint32_t window = 0;  // how many were to come along with it
  std::uint32_t along = 0;   // how many did
  // Of neighbours:
  std::uint32_t group = 0;    // how many are brought in together now
  std::uint32_t misses = 0;   // since they are not
  std::uint32_t brought = 0;  // since it was last judged whether they are of use
  std::uint32_t used = 0;     // ... of which were
};

class Prefetcher {
 public:
  virtual ~Prefetcher() = default;
  // How many pages after `page` should come along, at most `most`: they are mapped at once.
  virtual std::uint32_t along(History& history, PageNo page, std::uint32_t most) const noexcept = 0;
  // How large a group of neighbours, of which the page is one, should come along into the read buffer: a power of two,
  // at most `most`; 1: none. Asked where one read costs more than its bytes.
  virtual std::uint32_t around(History& history, std::uint32_t most) const noexcept = 0;
  // So many neighbours were brought in; one of them was used.
  virtual void brought(History& history, std::uint32_t pages) const noexcept = 0;
  virtual void used(History& history) const noexcept = 0;
};

// Doubles the window as long as faults follow one another, and starts again when they do not: the next pages of a scan
// come in large reads. Neighbours come as long as one in eight is used; now and then a few do, to see whether that has
// changed. So random access brings next to nothing in that was not asked for.
class NextPages final : public Prefetcher {
 public:
  std::uint32_t along(History& history, PageNo page, std::uint32_t most) const noexcept override {
    const bool follows = page == history.expected;
    history.window = follows ? std::min(most, std::max(2U, 2 * history.window)) : 0;
    return history.window;
  }
  std::uint32_t around(History& history, std::uint32_t most) const noexcept override {
    if (history.group > 1) return std::min(history.group, most);
    return ++history.misses % kProbe == 0 ? std::min(kFewest, most) : 1;
  }
  void brought(History& history, std::uint32_t pages) const noexcept override {
    history.brought += pages;
    if (history.brought < kJudged) return;
    const std::uint32_t useful = history.used * kUseful;
    if (useful >= history.brought) {
      history.group = std::min(kMost, std::max(kFewest, 2 * history.group));
    } else if (2 * useful < history.brought) {
      history.group = history.group > kFewest ? history.group / 2 : 0;
    }
    history.brought = history.used = 0;
  }
  void used(History& history) const noexcept override { ++history.used; }

 private:
  static constexpr std::uint32_t kMost = 16;
  static constexpr std::uint32_t kFewest = 4;
  static constexpr std::uint32_t kProbe = 64;   // one fault in so many
  static constexpr std::uint32_t kJudged = 64;  // pages
  static constexpr std::uint32_t kUseful = 8;   // one in so many
};

}  // namespace comex

// Whether a page that is only read yet had better be placed as if it had been written to.
//
// A page that is placed clean costs nothing when it leaves; but its first write is a fault, and to lift its guard every
// core has to be told, which costs more than to send a page, and much more on a virtual machine. One that is placed as
// written is sent when it leaves, in vain if nobody wrote to it. So it is a matter of how many of those that are placed
// clean are written to after all, and of what both cost, as measured. Some are placed clean in any case, or nothing
// would be learned any more.
//
// Of pages that come alone and in no order this is all that is known; of a stream more is (prefetch/history.h), and of
// a page that has been here before (Entry::revised).
//
// Thread safety: any thread; relaxed, a measurement lost now and then does not matter. Fault path: yes.
#pragma once

#include <atomic>
#include <cstdint>

#include "pager/odds.h"
#include "pager/usual_cost.h"

namespace comex {

class WriteGuess {
 public:
  // Whether a fault is to be told of by the next two functions: one in many, as long as pages are placed clean; all
  // when only few are.
  [[nodiscard]] bool counts(bool sampled) const noexcept { return sampled || eager_.load(std::memory_order_relaxed); }
  // It brought in so many pages clean,
  void placed(std::uint32_t pages) noexcept { odds_.tried(pages); }
  // ... or was the first write to one that was.
  void written() noexcept { odds_.followed(); }
  // To lift the guard took so long.
  void lifted(std::uint64_t ns) noexcept { lift_.note(ns); }
  // Whether to do without guards pays, if this share of the pages (of Odds::kOne) is written to, and to send one costs
  // so much.
  [[nodiscard]] bool pays(std::uint64_t share, std::uint64_t send_ns) const noexcept {
    constexpr std::uint64_t kFault = 2'000;  // ns: delivering one
    return share * (lift_.ns() + kFault) > (Odds::kOne - share) * send_ns;
  }
  // If to send a page costs so much.
  [[nodiscard]] bool likely(std::uint64_t send_ns) noexcept {
    // Where both cost about the same it stays as it is: each change makes it count anew.
    const std::uint64_t price = eager_.load(std::memory_order_relaxed) ? send_ns * 3 / 4 : send_ns;
    const bool likely = pays(odds_.share(), price);
    if (likely == eager_.load(std::memory_order_relaxed)) return likely;
    eager_.store(likely, std::memory_order_relaxed);
    odds_.begin_anew();
    return likely;
  }

 private:
  std::atomic<bool> eager_{false};
  Odds odds_;
  UsualCost lift_;
};

}  // namespace comex

// Where there is nothing to be found, looking for it is all that prefetching costs. Who has looked at many faults in a
// row and never found anything to bring looks away for a while, and then looks again: at a quarter of the faults in the
// end. Faults near each other, which there are none of at random, end that at once; a stream of wide steps that begins
// meanwhile is found some hundred faults later.
//
// Only for near pages: a fault on a far one takes so long that looking does not count.
//
// Thread safety: one thread. Fault path: yes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pager/page.h"

namespace comex {

class Attention {
 public:
  static constexpr std::uint32_t kPatience = 256;  // faults in vain, before it looks away
  static constexpr std::uint32_t kAway = 768;      // ... for so many
  static constexpr std::uint64_t kNear = 64;       // pages from one fault to the next
  static constexpr std::uint32_t kEnough = 2;      // so many such in a row, and it looks again

  // Called for each fault. True: do not look at this one.
  bool is_away(PageNo page) noexcept {
    const std::uint64_t ahead = page - last_;
    last_ = page;
    if (away_ == 0) return false;
    near_ = std::min(ahead, ~ahead + 1) <= kNear ? near_ + 1 : 0;
    const bool away = near_ < kEnough;
    away_ = away ? away_ - 1 : 0;
    return away;
  }
  // What came of looking at a fault.
  void found(bool anything) noexcept {
    if (anything) {
      vain_ = 0;
    } else if (++vain_ == kPatience) {
      vain_ = near_ = 0;
      away_ = kAway;
    }
  }

 private:
  PageNo last_{};
  std::uint32_t vain_ = 0;  // faults in a row
  std::uint32_t away_ = 0;  // faults still to be passed by
  std::uint32_t near_ = 0;  // of those, the last in a row that were near each other
};

}  // namespace comex

// Where there is nothing to be found, looking for it is all that prefetching costs. Who has looked at many faults in a
// row and never found anything to bring looks away for a while, and then looks again: at a quarter of the faults in the
// end. What begins meanwhile is found some hundred faults later.
//
// Only for near pages: a fault on a far one takes so long that looking does not count.
//
// Thread safety: one thread. Fault path: yes.
#pragma once

#include <cstdint>

namespace comex {

class Attention {
 public:
  static constexpr std::uint32_t kPatience = 256;  // faults in vain, before it looks away
  static constexpr std::uint32_t kAway = 768;      // ... for so many

  // Called for each fault. True: do not look at this one.
  bool is_away() noexcept {
    if (away_ == 0) return false;
    --away_;
    return true;
  }
  // What came of looking at a fault.
  void found(bool anything) noexcept {
    if (anything) {
      vain_ = 0;
    } else if (++vain_ == kPatience) {
      vain_ = 0;
      away_ = kAway;
    }
  }

 private:
  std::uint32_t vain_ = 0;  // faults in a row
  std::uint32_t away_ = 0;  // faults still to be passed by
};

}  // namespace comex

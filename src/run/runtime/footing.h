// Firm ground under a thread of the program while it holds what message handlers need.
//
// A stack may lie in adopted memory: that of a coroutine, or one made by the program for a thread. If a thread that
// holds a lock of the pager met a page of its stack that is away, the handler that should bring it would wait for that
// lock, for ever. So first the stack is made resident and pinned, deep enough for all that the runtime does.
//
// Where faults are signals there is nothing to do: the kernel could not have delivered one on such a stack.
// Thread safety: an object is its thread's own. Fault path: REQUIRES that no lock of the runtime is held.
#pragma once

#include "run/runtime/process.h"

namespace comex::runtime {

class Footing {
 public:
  Footing() noexcept : pins_(*process.threads, *this_thread()) {
    if (process.memory.delivery() == Delivery::message) secure(PageNo::of(__builtin_frame_address(0)));
  }

 private:
  static constexpr std::uint64_t kBelow = 12;  // pages: several times the deepest that was seen
  static constexpr std::uint64_t kAbove = 4;   // the signal frame, with all registers of the processor

  void secure(PageNo here) noexcept;

  PinFrame pins_;
};

}  // namespace comex::runtime

// Faults delivered as messages: threads of the runtime's own that resolve them while whoever touched waits.
//
// They never touch adopted memory, and never wait for a thread that may: not for the crossing, nor for the layout or
// the signal actions. What they do wait for is an entry of the page table, or a lock inside the pager; whoever holds
// one of those touches nothing of the program. See "Faults as messages" in docs/design-notes.md.
//
// Thread safety: start() by one thread; the rest by the one that forks. Fault path: yes.
#pragma once

#include <array>

#include "pager/pager.h"
#include "run/runtime/crossing.h"
#include "run/uffd_memory.h"

namespace comex::runtime {

class Messages {
 public:
  // Begins to serve what `memory` tells, which is that of the process, or will be before resume(). Does nothing if
  // faults are not delivered so. In a new process, and again in the child of a fork. False if nobody can serve; fewer
  // than there should be are enough.
  bool start(const UffdMemory& memory) noexcept;

  // Around a fork or a move: between the two nobody is at work on a message. Who touches meanwhile waits.
  void pause() noexcept { serving_.close(); }
  void resume() noexcept { serving_.open(); }

 private:
  // One that waits for the network must not keep those waiting that need not.
  static constexpr std::size_t kHandlers = 2;

  struct Handler {
    Faulter faulter;
    int epoll = -1;  // each has its own: a message wakes one that has nothing to do, not all
  };

  [[noreturn]] static void serve_for_ever(void* handler);
  // False: there was none.
  bool serve_next(Faulter& faulter) noexcept;

  std::array<Handler, kHandlers> handlers_;
  SharedHistories histories_;  // any of them may serve the next fault of a thread
  Crossing serving_;
};

}  // namespace comex::runtime

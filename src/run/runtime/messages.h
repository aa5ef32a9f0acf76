// Faults delivered as messages: threads of the runtime's own that resolve them while whoever touched waits.
//
// They never touch adopted memory, and never wait for a thread that may: not for the crossing, nor for the layout or
// the signal actions. What they do wait for is an entry of the page table, or a lock inside the pager; whoever holds
// one of those has firm ground under its feet (run/runtime/footing.h). See "Faults as messages" in
// docs/design-notes.md.
//
// Thread safety: start() by one thread; the rest by the one that forks. Fault path: yes.
#pragma once

#include "run/runtime/crossing.h"

namespace comex::runtime {

class Messages {
 public:
  // Begins to serve, if faults are delivered so. False if a thread could not be started.
  bool start() noexcept;

  // Around a fork: between the two nobody is at work on a message. Who touches meanwhile waits.
  void pause() noexcept { serving_.close(); }
  void resume() noexcept { serving_.open(); }

 private:
  [[noreturn]] static void serve_for_ever(void* faulter);

  Crossing serving_;
};

}  // namespace comex::runtime

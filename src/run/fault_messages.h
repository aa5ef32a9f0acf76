// Resolving a fault that came as a message, while whoever touched waits: a thread of the program, or the kernel on its
// behalf. See "Faults as messages" in docs/design-notes.md.
//
// Thread safety: any thread, with a Faulter of its own. Fault path: yes.
#pragma once

#include "pager/pager.h"
#include "run/uffd_memory.h"

namespace comex {

// Whatever came of it, and whoever did it, those who wait are woken and look again. So none sleeps for ever because the
// page was there already, went away again, or is not ours any more. Only one that is lost must not be looked at.
inline Served answer(const UffdMemory::Touch& touch, UffdMemory& memory, Pager& pager, Faulter& faulter) noexcept {
  const Served served = pager.fault(touch.page, touch.write, faulter);
  if (served != Served::lost && served != Served::failed) memory.wake(touch.page);
  return served;
}

}  // namespace comex

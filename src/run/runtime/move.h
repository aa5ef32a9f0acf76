// Moving a running process from signals to messages: for calls after which the kernel uses the program's memory on its
// own (io_uring, AIO), where it could not wait for a page otherwise. See "Moving to messages" in docs/design-notes.md.
#pragma once

#include "base/expected.h"
#include "run/delivery.h"

namespace comex::runtime {

// How faults must be delivered in a process that wakes: as `wanted`, unless the kernel has been told of its memory for
// io_uring or AIO while it was dormant.
Delivery fit_delivery(Delivery wanted) noexcept;

// Opens the memory of this process, with faults delivered as `wanted`. Who has given up the right to messages gets
// signals.
Errc open_memory(Delivery wanted) noexcept;

// What the kernel, or a driver, may have been told of the process' memory while it was dormant.
enum class Held {
  nothing,
  seen,   // and eviction can leave alone what is pinned
  blind,  // and neither this kernel nor the rights that we have let us know of what: nothing may be evicted
};
Held held_since_dormant() noexcept;

// When this returns, eviction leaves alone what the kernel has pinned, and nothing that it began before is under way.
// On a kernel that does not tell what that is, all memory stays here from now on.
// REQUIRES: as below.
void expect_pins() noexcept;

// True if faults are delivered as messages when this returns, and eviction sees what the kernel has pinned; otherwise
// nothing has changed.
// REQUIRES: the caller holds no lock of the runtime, and is in the gate, or a thread of the runtime's own.
bool move_to_message() noexcept;

}  // namespace comex::runtime

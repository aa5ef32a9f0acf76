// Memory of another process of the program: what process_vm_readv and process_vm_writev reach.
//
// Where faults are signals, the kernel refuses whoever comes from outside to a page that is away. So a process asks its
// neighbour to be moved to message delivery (move.h), where the kernel waits for the page, and tries again. The
// neighbour's evicting thread sees to that. See "Memory of a neighbour" in docs/design-notes.md.
//
// Thread safety: any thread.
#pragma once

#include <sys/types.h>

namespace comex::runtime {

// Whether that process is one of this program in which the kernel waits for pages now. Waits until it is, if it can be.
bool kernel_waits_in(pid_t neighbour) noexcept;

// For the thread that evicts: does what neighbours have asked for.
void answer_neighbours() noexcept;

}  // namespace comex::runtime

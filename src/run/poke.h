// A signal for every thread of another process at once, which none of them notices in a system call.
//
// A signal that a thread handles makes many system calls fail with EINTR, and others return early. So the threads are
// stopped first, the way a debugger stops them (ptrace): that takes each out of the system call it is in. One that has
// to be made again is set back to its beginning; then the signal is queued, and the threads run on. Their handler is
// the first thing they come to, and when it returns they make the call again.
//
// What remains to be seen: a sleep, or a time-out, begins anew. A call that had done a part of its work returns that
// part. A sleep that had been stopped and continued before (Ctrl-Z) fails with EINTR: the kernel goes on with it by a
// call of its own (restart_syscall), which does not say what it goes on with.
//
// Thread safety: ptrace belongs to a thread: all calls from one.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/clock.h"
#include "base/expected.h"

namespace comex {

// Sends SIGSYS, with a PokeValue (run/poke_value.h). SIGSYS and SIGBUS are not blocked any more in those that get it.
// Returns how many did: all but the thread `spared` (0: none). Errc::timeout if one could not be stopped in time (it
// waits for a disk, or for a child made by vfork): then nobody has been sent anything; nor with Errc::busy: it
// does not handle the signal, or is about to handle another. Errc::disconnected if the process ends; Errc::denied
// without the right to ptrace.
Expected<std::uint32_t> poke(pid_t process, pid_t spared, Deadline patience);

// Whether this process has the right to poke that one.
bool can_poke(pid_t process);

}  // namespace comex

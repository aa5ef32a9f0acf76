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
// Thread safety: one call at a time for a process. It has a thread of its own while it lasts, to which ptrace belongs;
// when it returns no thread of that process is traced.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "base/expected.h"

namespace comex {

// Sends SIGSYS, with a PokeValue (run/poke_value.h). SIGSYS and SIGBUS are not blocked any more in those that get it.
// `desk`: the address of a PokeDesk (run/poke_desk.h) in that process, whose handler is put in place first; 0: the one
// that is there is the right one. `still`: asked when all of them have been stopped, whether the signal is still to be
// sent; what only they can change does not change any more until they have got it. Returns how many got the signal: all
// threads but `spared` (0: none).
//
// Otherwise nobody has been sent anything. Errc::timeout: one could not be stopped in time (it waits for a disk, or for
// a child made by vfork). Errc::busy: there is no handler or no desk, it is about to handle another signal, SIGSYS
// waits for it already, it is becoming another program, the signal is not to be sent any more, or it cannot be looked
// at now. Errc::disconnected: it has ended, or has no thread but the one that is spared. Errc::denied: there is no
// right to ptrace, or the program has given up its right to set handlers. Errc::unsupported: it has no thread of 64
// bits.
//
// `awake`: SIGSYS is not blocked by the program, but by the runtime in handlers that may wait until we have done this.
// One that waits for them is let in, so that there is room for ours the next time.
Expected<std::uint32_t> poke(pid_t process, pid_t spared, std::uint64_t desk, Deadline patience,
                             const std::function<bool()>& still = nullptr, bool awake = false);

}  // namespace comex

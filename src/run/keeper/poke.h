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
// `desk`: the address of a PokeDesk (run/poke_desk.h) in that process, whose handler is put in place first; 0: the one
// that is there is the right one. Returns how many got the signal: all threads but `spared` (0: none).
//
// Otherwise nobody has been sent anything. Errc::timeout: one could not be stopped in time (it waits for a disk, or for
// a child made by vfork). Errc::busy: there is no handler or no desk, it is about to handle another signal, or SIGSYS
// waits for it already. Errc::disconnected: the process ends. Errc::denied: there is no right to ptrace, or the program
// has given up its right to set handlers. Errc::unsupported: it has no thread of 64 bits.
Expected<std::uint32_t> poke(pid_t process, pid_t spared, std::uint64_t desk, Deadline patience);

}  // namespace comex

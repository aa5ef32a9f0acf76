// The direct way: hot functions of libc, taken over by this library, that make their system call from the gate's
// addresses without a trap, if all memory they name is resident. Everything else goes on to libc, and to the gate.
//
// No signal of the program is handled between pinning and unpinning: it is put aside, as for a call in the gate, and
// the thread traps once when it is done. See "The direct way" in docs/design-notes.md.
//
// Thread safety: any thread.
#pragma once

#include <signal.h>

namespace comex::runtime {

// From now on calls may go directly; for threads that are under the gate.
void allow_direct() noexcept;
// Never again: cancellation, or tasks that share thread-local storage, need libc's way.
void forbid_direct() noexcept;
// A thread may have a filter of system calls from now on. If the program handles what a filter stops, which comes as
// SIGSYS with the call's registers, no call is made elsewhere than in the gate any more, with that signal open. Filters
// that only refuse, as containers have them for all that runs there, change nothing.
void expect_filters() noexcept;

// A signal by which a thread is called out of a direct call; nothing else is to be done about it.
bool is_call_out(const siginfo_t& info) noexcept;

}  // namespace comex::runtime

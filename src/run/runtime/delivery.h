// The program's signal handlers, called as the kernel would call them, from a handler of ours.
//
// Every handler of the runtime runs on a stack of the runtime's own (one per thread, registered with the kernel, which
// switches to it by SA_ONSTACK): the stack that the program stands on may be away, and the kernel could push nothing
// there. Ours never calls the program's handler. It writes the frame that the kernel would have written, to the stack
// that the program expects it on, and returns into the handler. So no frame of ours is below any code of the program:
// a handler that never comes back (siglongjmp, a switch to another coroutine) leaves nothing of ours behind.
// See "Signals" in docs/design-notes.md.
//
// Thread safety: a thread's own affair. Fault path: yes; touches the program's stacks, which may fault.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstdint>

#include "run/runtime/signals.h"

namespace comex::runtime {

struct ThreadState;

// Registers the stack for handlers. REQUIRES: no handler of ours runs on this thread.
void use_stack(ThreadState& state) noexcept;
// In a handler: the same as of its return. What was registered is the program's own.
void use_stack_from(ThreadState& state, ucontext_t& frame) noexcept;

// In the handler by which a thread is woken: stack and mask, as of its return.
void take_over(ThreadState& state, ucontext_t& frame) noexcept;

// As if the kernel had delivered the signal while the program was as `frame` says: it goes on in its handler when ours
// returns. `blocked`: the mask at that moment, where it is not that of the frame (rt_sigsuspend, ppoll).
void deliver(ThreadState& state, const Arrival& arrival, ucontext_t& frame, const std::uint64_t* blocked) noexcept;

// Everything may be blocked since a signal was put aside: not any more when the program goes on as `frame` says.
void restore_mask(ThreadState& state, ucontext_t& frame) noexcept;
// The same as deliver() for signals that were put aside or kept, if any, now that nothing of ours is left to do.
void deliver_aside(ThreadState& state, ucontext_t& frame) noexcept;

// rt_sigreturn: the program goes on as the frame on its stack says.
void return_from_handler(ThreadState& state, ucontext_t& frame) noexcept;

// sigaltstack, of which the kernel must not hear; -errno.
std::int64_t set_program_stack(ThreadState& state, const ucontext_t& frame, std::uint64_t next,
                               std::uint64_t previous) noexcept;

}  // namespace comex::runtime

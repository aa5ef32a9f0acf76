// How the gate lets system calls through, once what they touch is in place.
//
// Thread safety: any thread that is in the gate. Fault path: yes.
#pragma once

#include <cstdint>

#include "run/syscalls/syscall_table.h"

namespace comex::runtime {

// Short ones: signals wait until it is over.
std::int64_t let_through(const syscalls::Call& call) noexcept;

// Those that may wait, with the program's signals open: one that comes is put aside, and ends it. `mask`: what is
// blocked; while the kernel works, or waits, that may be any.
std::int64_t let_wait(const syscalls::Call& call, std::uint64_t mask) noexcept;

// Short ones that a filter of the program's may stop (seccomp). The kernel says so by SIGSYS, and kills if that is
// blocked, so it is open unless the program has it blocked itself. -ENOSYS if the call was stopped; then the signal is
// aside, and whatever the gate says is not the result: see tell_trapped().
// Without a filter, or outside the gate: as let_through().
std::int64_t let_filtered(const syscalls::Call& call) noexcept;

// In the gate, with what is aside: a handler of the program's is to find the call that the program has made, and not
// what was made of it. `address`: behind its instruction. Returns whether a filter has stopped the call.
bool tell_trapped(const syscalls::Call& call, std::uint64_t address) noexcept;

}  // namespace comex::runtime

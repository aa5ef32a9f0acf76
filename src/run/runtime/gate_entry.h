// The one place in a gated process where a system call is let through by its address, in assembly (gate_entry.cpp).
//
// Syscall User Dispatch stops every system call of a thread whose selector says so, except those made from one range of
// addresses. These functions are that range. What runs with the selector open may make system calls from anywhere;
// what closes the selector and has one more call to make, makes it here.
#pragma once

#include <cstdint>

namespace comex::runtime {

struct ThreadState;

extern "C" {
// Where the range begins and ends.
extern const char comex_gate_begin[];
extern const char comex_gate_end[];

// Makes a system call; returns what the kernel returned, -errno included.
std::int64_t comex_gate_call(std::uint64_t number, std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d,
                             std::uint64_t e, std::uint64_t f);
// What signal handlers return to: rt_sigreturn.
void comex_gate_restorer();
// Makes a clone call with the number and arguments in child->registers. In the child (a thread, or a child that shares
// this memory) it calls comex_child_begin(child) on the child's stack and goes on where child->registers say.
std::int64_t comex_gate_clone(ThreadState* child);
// Leaves all of the runtime's frames and returns from the signal frame at `stack`, where the program's handler ended.
[[noreturn]] void comex_gate_sigreturn(std::uint64_t stack);

void comex_child_begin(ThreadState* child);
}

}  // namespace comex::runtime

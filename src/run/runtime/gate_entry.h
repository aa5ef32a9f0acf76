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
// Where it does: a thread that is sent here by others makes the call that is in its registers.
extern const char comex_gate_instruction[];
// The same for a call that may wait, unless *aside is not 0: a signal handler that sets it finds the program between
// comex_wait_check and comex_wait_call if the call has not been made, or is to be made again, and sends it to
// comex_wait_abort, where kMakeAgain is returned. After the call it is where the call returned.
std::int64_t comex_gate_wait(std::uint64_t number, std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d,
                             std::uint64_t e, std::uint64_t f, const int* aside);
extern const char comex_wait_check[];
extern const char comex_wait_call[];
extern const char comex_wait_abort[];
// What signal handlers return to: rt_sigreturn.
void comex_gate_restorer();
// Makes a clone call with the number and arguments in child->registers. In the child (a thread, or a child that shares
// this memory) it calls comex_child_begin(child) on the stack for handlers, as the child's own may be away, and goes on
// where child->registers say.
std::int64_t comex_gate_clone(ThreadState* child);
// Gives the state of a thread away (*owner = 0) and ends the thread, without touching the stack in between: it is the
// next owner's.
[[noreturn]] void comex_gate_exit(std::uint64_t status, std::uint32_t* owner);

void comex_child_begin(ThreadState* child);
}

// Of the instruction by which a call is made.
constexpr std::int64_t kCallBytes = 2;

// What comex_gate_wait returns for a call that is to be made again.
constexpr std::int64_t kMakeAgain = -512;

}  // namespace comex::runtime

// A system call that a stopped thread of another process is made to make.
//
// Thread safety: ptrace belongs to a thread: the one that stopped it.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>

#include "base/expected.h"

namespace comex {

struct ForeignCall {
  std::uint64_t instruction = 0;  // the address of one that makes system calls
  std::uint64_t number = 0;
  std::array<std::uint64_t, 4> arguments{};
};

// Makes it and stops the thread again, as it was but for the instruction pointer of a call that it was in: that call is
// to be made again (set_back). Returns what the kernel answered, -errno included. A signal that came for the thread
// meanwhile is in `signal`, for whoever lets it go. Errc::unsupported if it is not a thread of 64 bits;
// Errc::disconnected if it ended.
// REQUIRES: it is held by PTRACE_SEIZE, stands still, and not because of a signal; the call does not wait.
Expected<std::int64_t> make_call(pid_t thread, const ForeignCall& call, int* signal);

// Which signals it blocks. False if it is gone. REQUIRES: it stands still.
bool get_mask(pid_t thread, std::uint64_t* mask);
bool set_mask(pid_t thread, std::uint64_t mask);

// The kernel has ended the system call that the thread was in, with a number that says how it would go on by itself.
// With a handler to be called first it would not: most calls would fail with EINTR. Makes it begin the call again.
void set_back(pid_t thread);
// For a thread that is let go again without a handler to be called: the kernel goes on with most calls by itself, but
// not with those that say EINTR whenever they are woken (epoll_wait).
void set_back_interrupted(pid_t thread);

}  // namespace comex

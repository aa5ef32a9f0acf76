// System calls that make or end a thread or a process.
//
// Thread safety: any thread. Fault path: each returns what the kernel would, -errno included.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace comex::runtime {

// Puts this thread under the gate, which is open until its selector says otherwise.
void arm(struct ThreadState& state) noexcept;

// `registers` as they were at the call.
std::int64_t clone_task(greg_t* registers) noexcept;
std::int64_t fork_task(greg_t* registers) noexcept;
[[noreturn]] void exit_thread(std::uint64_t status) noexcept;

}  // namespace comex::runtime

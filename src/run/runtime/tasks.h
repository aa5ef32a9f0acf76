// System calls that make or end a thread or a process.
//
// Thread safety: any thread. Fault path: each returns what the kernel would, -errno included.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace comex::runtime {

// Puts this thread under the gate, which is open until its selector says otherwise.
void arm(struct ThreadState& state) noexcept;

// `context` as it was at the call.
std::int64_t clone_task(ucontext_t& context) noexcept;
std::int64_t fork_task(ucontext_t& context) noexcept;
[[noreturn]] void exit_thread(std::uint64_t status) noexcept;

}  // namespace comex::runtime

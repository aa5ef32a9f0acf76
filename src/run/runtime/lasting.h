// Memory that the kernel uses outside any call: what it was told of before (robust lists, rseq areas, words to clear
// when a thread ends) is left to it for good, and what it finds through that, when a thread ends, is made resident.
// See "Memory that the kernel remembers" in docs/design-notes.md.
//
// Thread safety: any thread. Fault path: yes.
#pragma once

#include <cstdint>

#include "run/syscalls/syscall_table.h"

namespace comex::runtime {

// Before a call of Class::lasting: false if it must not be made, with the answer in `result`.
bool allow_lasting(const syscalls::Call& call, std::int64_t& result) noexcept;

// The thread-local storage that this pointer belongs to: handlers of faults need it themselves (errno).
void leave_storage_alone(std::uint64_t thread_pointer) noexcept;

// What libc has told the kernel about this thread before its calls came to the gate, and its thread-local storage.
void leave_registered_alone() noexcept;

// The mutexes that this thread holds, which the kernel will mark. They stay with the kernel: nobody is there to unpin
// them when it is done.
void leave_robust_list_alone() noexcept;
// The same for all threads of the process, which end in this very call. REQUIRES: everything is pinned.
void settle_robust_lists() noexcept;

}  // namespace comex::runtime

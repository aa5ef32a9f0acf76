// The memory of calls that are many calls in one: fcntl, prctl, futex, keyctl ... What an operation touches is said in
// the words of syscall_memory.h, beside what Entry::memory says for all operations of the call.
//
// Thread safety: any thread. Fault path, signal handlers: yes; constant data only.
#pragma once

#include <cstdint>

#include "run/syscalls/syscall_table.h"

namespace comex::syscalls {

struct Operation {
  std::uint32_t value = 0;
  Memory memory[3] = {};
  // Nobody knows this operation: whatever looks like an address among the arguments has to be taken for one.
  bool guessed = false;
};

// What the operation named by the call's arguments touches. REQUIRES: entry(call.number).operations is not none.
Operation operation_of(const Call& call) noexcept;

// Argument 2 of ioctl, by the request; see ioctl_table.cpp.
Operation ioctl_operation(std::uint32_t request) noexcept;

}  // namespace comex::syscalls

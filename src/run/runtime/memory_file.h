// /proc/PID/mem: the memory of the program as a file. The kernel looks pages up there in a way that cannot wait for one
// that is away, nor lift a guard: the call fails with EIO, which no other file of a program's usually says.
//
// Thread safety: any thread. Fault path: yes; bare system calls.
#pragma once

#include <optional>

#include "run/syscalls/syscall_ranges.h"
#include "run/syscalls/syscall_table.h"

namespace comex::runtime {

// What of this process a call, which has failed with EIO, touches through such a file: as much as one may have in place
// for it. Nothing if it is another file, or another process's.
std::optional<syscalls::Range> touched_as_file(const syscalls::Call& call) noexcept;

}  // namespace comex::runtime

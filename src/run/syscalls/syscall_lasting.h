// Calls after which the kernel goes on using the program's memory (Class::lasting), and what is to be done about it.
//
// Under SIGBUS delivery the kernel must never meet a page that is away, or guarded, outside a call that the gate has
// prepared: what it touches then fails, or kills the program (rseq). Under message delivery it just waits.
//
// Thread safety: any thread. Fault path, signal handlers: yes.
#pragma once

#include <cstdint>

#include "run/syscalls/syscall_table.h"

namespace comex::syscalls {

// The option of prctl that would take the gate away: PR_SET_SYSCALL_USER_DISPATCH.
inline constexpr std::uint64_t kSyscallDispatch = 59;

enum class Keeps : std::uint8_t {
  nothing,    // its own references to pages, at most (vmsplice, MSG_ZEROCOPY): what they show does not change
  addresses,  // addresses of all that the call announces: leave that memory to the kernel for good
  range,      // a range of addresses that a structure names: leave it to the kernel (userfaultfd, KVM)
  refused,    // would take the gate away from under the program: answer as a kernel that does not know it
  unknown,    // the kernel is told of more memory later, in ways the gate does not see (io_uring)
};

Keeps keeps(const Call& call) noexcept;

// After this call only message delivery is right, or within the budget: io_uring is told of buffers in memory that the
// gate does not read; what AIO and KVM use would have to stay local.
bool needs_message(const Call& call) noexcept;

// A driver may take hold of pages that the gate does not know of, and write to them past the page table: RDMA, GPUs,
// cameras, AF_XDP. Every ioctl that is not known to be harmless.
bool may_pin(const Call& call) noexcept;

// Where the structure behind argument 2 names the range, if keeps() says so: the offsets of two 64-bit numbers.
struct RangeAt {
  std::uint32_t begin = 0;
  std::uint32_t bytes = 0;
};
RangeAt range_at(const Call& call) noexcept;

}  // namespace comex::syscalls

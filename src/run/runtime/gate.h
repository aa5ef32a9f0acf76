// The handler of SIGSYS: every system call of the program comes here first.
//
// Under SIGBUS delivery a system call that meets a page which is away, or guarded, fails with EFAULT, and may have done
// half of its work by then. So before a call is let through, all memory that the kernel will touch for it is pinned and
// made resident, and stays so until it returns. See "The gate" in docs/design-notes.md.
#pragma once

#include <signal.h>

namespace comex::runtime {

void on_call(int signal, siginfo_t* info, void* context);

}  // namespace comex::runtime

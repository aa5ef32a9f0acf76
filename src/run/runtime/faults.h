// The handler of SIGBUS: faults of the program's own threads, resolved by the thread that touched.
#pragma once

#include <signal.h>

#include "pager/page.h"

namespace comex::runtime {

void on_fault(int signal, siginfo_t* info, void* context);

// Makes a page resident for this thread, writable if it is to be written. Ends the process if the page is lost.
// False if it is not one of ours.
bool make_resident(PageNo page, bool write) noexcept;

// The same until it is so, and nobody is about to take it away: for pages that are pinned, so that it stays so.
void settle(PageNo page, bool write) noexcept;

}  // namespace comex::runtime

// The handler of SIGBUS: faults of the program's own threads, resolved by the thread that touched.
#pragma once

#include <signal.h>

#include "pager/pager.h"

namespace comex::runtime {

void on_fault(int signal, siginfo_t* info, void* context);

// What a thread needs to resolve faults; false if there is no memory.
bool equip(Faulter& faulter) noexcept;

// What came of a fault: false if it is not one of ours. Ends the process where the program must not go on.
bool resolved(PageNo page, Served served, const Faulter& faulter) noexcept;

// Makes a page resident for this thread, writable if it is to be written. As resolved().
bool make_resident(PageNo page, bool write, std::uint32_t offset = 0) noexcept;

// The same until it is so, and nobody is about to take it away: for pages that are pinned, so that it stays so.
void settle(PageNo page, bool write) noexcept;
void settle(PageRun pages, bool write) noexcept;

}  // namespace comex::runtime

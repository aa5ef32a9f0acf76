// The thread that takes pages away ahead of need. See pager/budget.h for when.
#pragma once

namespace comex::runtime {

// Fault path: may be called in a signal handler.
bool start_evictor() noexcept;
// If it sleeps and there is work. Cheap when there is not.
void wake_evictor() noexcept;

}  // namespace comex::runtime

// What becomes of faults under `comex run --trace`: each is put into a ring that the keeper empties (trace/ring.h).
//
// Thread safety: any thread. Fault path: trace_fault().
#pragma once

#include "pager/pager.h"
#include "run/runtime/process.h"

namespace comex::runtime {

// The rings in the file of the room; nullptr if they cannot be mapped.
TraceRing* map_rings(int file) noexcept;

// From now on the faults of this process go into the ring of its account: when it wakes, and in the child of a fork.
void begin_trace() noexcept;

void put_into_trace(PageNo page, bool write, Served served, const Faulter& faulter, std::uint32_t thread) noexcept;

inline void trace_fault(PageNo page, bool write, Served served, const Faulter& faulter, std::uint32_t thread) noexcept {
  if (process.trace != nullptr) put_into_trace(page, write, served, faulter, thread);
}

}  // namespace comex::runtime

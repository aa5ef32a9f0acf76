// What a process does under `comex run --profile`: says which program it is and where its memory lies, so that its
// faults can be told from run to run, and plays what the keeper has of an earlier run (run/score.h).
//
// Thread safety: one thread, while no other runs. Fault path: none of it.
#pragma once

#include "pager/prefetch/prefetcher.h"
#include "run/score.h"
#include "trace/ring.h"

namespace comex::runtime {

// The score in the file of the room; nullptr if it cannot be mapped.
const Score* map_score(int file) noexcept;

// Before the program runs: what it is, and where.
void know_program() noexcept;

// Puts that into the ring of the process.
void note_program(TraceRing& ring, std::uint64_t time) noexcept;

// Of this process, which has woken.
const Prefetcher& choose_prefetcher() noexcept;

// Takes a part of the score that is for this program and that no other process has: when it wakes, and in the child of
// a fork. REQUIRES: the keeper has answered.
void begin_playing() noexcept;

}  // namespace comex::runtime

// The figures of `comex bench prefetch`, drawn: for shm and TCP, how long every prefetcher took beside zram, what it
// covered and how right it was, by program. Thread-safe: a function without state.
#pragma once

#include <vector>

#include "bench/prefetch/prefetch_figures.h"
#include "plot/drawings.h"

namespace comex::bench {

// Only of what was measured.
std::vector<plot::Drawing> draw(const PrefetchFigures& figures);

}  // namespace comex::bench

// How busy the machine is with other things. Figures taken beside a compiler say little, and whoever reads them should
// know.
#pragma once

#include "base/clock.h"

namespace comex::bench {

// The share of all processors' time, 0 to 1, that was not idle during `time`. Sleeps for it. 0 where the kernel does
// not tell.
double host_load(Millis time);
// How long the benchmarks look before they begin.
inline constexpr Millis kLookAtLoad{500};

}  // namespace comex::bench

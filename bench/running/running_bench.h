// `comex bench run`: what `comex run` costs programs that need no more memory than they have.
#pragma once

#include "bench/running/running_figures.h"
#include "bench/steps.h"

namespace comex::bench {

struct RunningOptions {
  unsigned rounds = 5;
};

// A workload that cannot be had is skipped, one that breaks is left out from then on; both are in the figures.
// REQUIRES: this process has one thread, and an InterruptGuard lives.
Expected<RunningFigures> bench_running(const RunningOptions& options, Steps& steps);

}  // namespace comex::bench

// `comex bench sensitivity`: the figures 10 to 14 of the COMEX paper, made again: what the replenishing threshold, the
// prefetch size and the size of the read buffer are worth, and how much faster than the kernel's swap programs are as
// their memory shrinks.
#pragma once

#include <string>
#include <vector>

#include "bench/prefetch/programs.h"
#include "bench/sensitivity/sensitivity_figures.h"
#include "bench/steps.h"

namespace comex::bench {

struct SensitivityOptions {
  std::vector<std::string> programs;  // by name; empty: all
  std::vector<Sweep> sweeps{kSweeps.begin(), kSweeps.end()};
  std::vector<unsigned> thresholds{64, 256, 1024, 4096, 16384};
  std::vector<unsigned> prefetches{2, 4, 8, 16, 32};
  std::vector<unsigned> buffers{64, 256, 1024, 4096, 8192};
  std::vector<unsigned> shares{100, 75, 50, 25, 10};
  unsigned share = 25;       // per cent that is local while other sizes vary
  Millis limit{60'000};      // a run that takes longer is stopped
  double most_seconds = 30;  // a system that takes longer with some memory does not get to try with less
  std::string prefetch;      // empty: the one that comex run takes by itself
  ProgramSizes sizes;
  std::string swap_folder = "/var/tmp";

  void make_quick() {
    sizes = ProgramSizes::quick();
    thresholds = {64, 1024};
    prefetches = {2, 16};
    buffers = {64, 1024};
    shares = {100, 50, 25};
    share = 50;
    limit = Millis(15'000);
  }
};

// What cannot be had is skipped, what breaks is left out from then on; both are in the figures. T, P and B vary over
// TCP, where they matter. REQUIRES: this process has one thread, and an InterruptGuard lives.
Expected<SensitivityFigures> bench_sensitivity(const SensitivityOptions& options, Steps& steps);

}  // namespace comex::bench

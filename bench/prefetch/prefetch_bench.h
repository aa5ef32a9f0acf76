// `comex bench prefetch`: every prefetcher and every eviction policy of comex run on programs of many kinds that want
// more memory than they may have, beside the kernel's swap, in one run.
#pragma once

#include <string>
#include <vector>

#include "bench/paging/system.h"
#include "bench/prefetch/prefetch_figures.h"
#include "bench/prefetch/programs.h"
#include "bench/steps.h"

namespace comex::bench {

struct PrefetchOptions {
  std::vector<std::string> programs;     // by name; empty: all
  std::vector<std::string> prefetchers;  // likewise
  std::vector<std::string> evictors;     // likewise; the usual one is always there
  std::vector<std::string> systems{std::string(kPagingShm), std::string(kPagingZram), std::string(kPagingTcp),
                                   std::string(kPagingDisk)};
  unsigned rounds = 1;
  ProgramSizes sizes;
  std::string swap_folder = "/var/tmp";  // unlike /tmp on a disk, on most machines
};

// What cannot be had is skipped, what breaks is left out from then on; both are in the figures. The disk, which is
// slow, is in the first round only; `record` has a run before the first, to learn from. REQUIRES: this process has one
// thread, and an InterruptGuard lives.
Expected<PrefetchFigures> bench_prefetch(const PrefetchOptions& options, Steps& steps);

}  // namespace comex::bench

// `comex bench evict`: how much each eviction policy misses, beside the best possible on the same string of references.
//
// Nothing is prefetched, so that each use of a page that is away is a fault and can be counted. The best possible has
// all of the local memory; a program has a few pages less, for eviction runs ahead and the runtime needs some itself.
#pragma once

#include <vector>

#include "bench/evict/evict_figures.h"
#include "bench/evict/references.h"
#include "bench/steps.h"

namespace comex::bench {

struct EvictOptions {
  static constexpr std::uint64_t kQuickBytes = std::uint64_t{16} << 20;

  std::uint64_t local_bytes = std::uint64_t{64} << 20;
  unsigned rounds = 3;
  std::vector<References> references{kReferences.begin(), kReferences.end()};
};

// What breaks is in the figures. REQUIRES: this process has one thread, and an InterruptGuard lives.
Expected<EvictFigures> bench_evict(const EvictOptions& options, Steps& steps);

}  // namespace comex::bench

// `comex bench pool`: the links of comex beside memcpy, bare TCP, redis and nbdkit, in one run.
#pragma once

#include <vector>

#include "bench/figures.h"
#include "bench/steps.h"
#include "fabric/connect.h"

namespace comex::bench {

struct PoolBenchOptions {
  std::vector<Url> pool;  // empty: nodes of our own
  LinkOptions link;       // how to prove ourselves to the nodes of `pool`
  double seconds = 150;   // of measuring; starting and filling comes on top
  unsigned rounds = 9;
  std::uint32_t set_pages = 65536;  // 256 MiB: far more than any cache

  void make_quick() {
    seconds = 10;
    rounds = 3;
  }
};

// REQUIRES: this process has one thread, and an InterruptGuard lives.
Expected<Figures> bench_pool(const PoolBenchOptions& options, Steps& steps);

}  // namespace comex::bench

// `comex bench keep`: a program four times as large as its memory, on memory nodes of its own, with its pages kept in
// one copy, in two, and coded across five nodes: how fast it is, with all nodes and without one, how long it waits when
// a node is stopped or killed, and how much the nodes hold for it.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/expected.h"
#include "bench/keep/keep_figures.h"
#include "bench/steps.h"

namespace comex::bench {

struct KeepOptions {
  std::uint64_t set_bytes = std::uint64_t{256} << 20;
  unsigned rounds = 3;
  unsigned rewrites = 3;  // of all pages, at random
  Millis watch{4'000};    // for the longest wait
  unsigned nodes = 5;

  [[nodiscard]] std::uint64_t local_bytes() const { return set_bytes / 4; }
  // One copy is on one node while that has room.
  [[nodiscard]] std::uint64_t node_bytes() const { return set_bytes * 2; }
  void make_quick() {
    set_bytes = std::uint64_t{64} << 20;
    rounds = 1;
  }
};

// REQUIRES: this process has one thread, and an InterruptGuard lives.
Expected<KeepFigures> bench_keep(const KeepOptions& options, Steps& steps);

}  // namespace comex::bench

// `comex bench chaos`: programs that verify every word they wrote, on several memory nodes, in a storm of faults.
//
//   namespace 0: comex run ... comex-checker (several, one after the other)
//        |
//      bridge ---- wires that are pulled, jolted, slow
//        |
//   namespaces 1 to n: comex serve, killed, stopped, filled
//
// One fault at a time: the next comes when the last is over and all pages have their copies again. With two copies no
// program may end badly; with one a program may be stopped, and must say why; no word may ever be wrong.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"
#include "bench/chaos/storm.h"
#include "bench/steps.h"

namespace comex::bench {

struct ChaosOptions {
  unsigned nodes = 4;
  unsigned copies = 2;
  std::string code;       // "4+1": coded, instead of copies; empty: not
  unsigned programs = 2;  // at a time
  unsigned faults = 200;
  std::uint64_t seed = 1;
  Millis longest{10'000};  // that a node is silent
  std::uint64_t node_bytes = std::uint64_t{512} << 20;

  void make_quick() {
    faults = 20;
    longest = Millis(2'000);
  }
};

struct ChaosFigures {
  ChaosOptions options;
  std::map<Mishap, unsigned> faults;
  unsigned filled = 0;             // nodes that were full in the end, of those that somebody was to fill
  unsigned emptied = 0;            // ... that were empty, of those that were to be
  unsigned ended_well = 0;         // programs that found nothing wrong
  unsigned stopped = 0;            // ... that were stopped, with a word, for want of a copy
  std::vector<std::string> wrong;  // what should not have been
  double seconds = 0;
  double longest_recovery = 0;  // seconds from the end of a fault until all had their copies again
};

// REQUIRES: this process has one thread, and an InterruptGuard lives.
Expected<ChaosFigures> bench_chaos(const ChaosOptions& options, Steps& steps);

std::string to_text(const ChaosFigures& figures);
std::string to_json(const ChaosFigures& figures);

}  // namespace comex::bench

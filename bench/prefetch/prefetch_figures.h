// What a run of `comex bench prefetch` found: seconds, by program, system, prefetcher or eviction policy, and round,
// and what comex counted. As in figures.h, a figure is the median of the rounds, and a ratio is taken within each round
// first. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/figures.h"
#include "bench/prefetch/run_counts.h"

namespace comex::bench {

// Who did it. Kernels have their own prefetcher, which has no name here.
struct Contestant {
  std::string system;
  std::string prefetch;
  std::string evict = {};  // empty: the policy that comex run takes by itself

  bool operator==(const Contestant&) const = default;
  // "comex shm, leap", "comex shm, auto, fifo"
  [[nodiscard]] std::string text() const;
};

struct PrefetchSeries {
  std::string program;
  Contestant who;
  std::map<unsigned, double> rounds;  // seconds; a slow system is not in each of them
  std::optional<RunCounts> counts;    // of the first round

  [[nodiscard]] double middle() const;
};

struct PrefetchProgram {
  std::string name;
  std::uint64_t peak_bytes = 0;  // that it wants
  std::uint64_t local_bytes = 0;
  double native_seconds = 0;
};

struct PrefetchFigures {
  double load_before = 0;  // of the machine, by others: 0 to 1
  unsigned rounds = 0;
  std::string usual;                      // the prefetcher that comex run takes by itself
  std::string usual_evict;                // likewise, the eviction policy
  std::vector<std::string> prefetchers;   // in the order of the tables
  std::vector<std::string> evictors;      // likewise, but for the usual one
  std::vector<PrefetchProgram> programs;  // likewise
  std::vector<Contestant> contestants;    // likewise
  std::vector<PrefetchSeries> series;
  std::vector<Skipped> skipped;
  std::vector<Skipped> failed;

  PrefetchSeries& at(std::string_view program, const Contestant& who);
  [[nodiscard]] const PrefetchSeries* find(std::string_view program, const Contestant& who) const;
  // The median over the rounds that both were in of a / b; nothing where there is none.
  [[nodiscard]] std::optional<double> ratio(std::string_view program, const Contestant& a, const Contestant& b) const;
  // Beside the same system without prefetching; nothing for other eviction policies, which were not measured so.
  [[nodiscard]] std::optional<double> coverage(const PrefetchSeries& of) const;
};

}  // namespace comex::bench

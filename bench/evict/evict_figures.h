// What a run of `comex bench evict` found: how many uses of a page found it away, by policy and string of references,
// beside the best possible. A figure is the median of the rounds. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/expected.h"
#include "bench/figures.h"

namespace comex::bench {

struct EvictSeries {
  std::string policy;
  std::vector<double> missed;
  std::vector<double> us;  // per reference
};

struct EvictString {
  std::string name;
  std::uint64_t pages = 0;
  std::uint64_t length = 0;
  std::uint64_t best = 0;  // that can be missed
  std::vector<EvictSeries> policies;
};

struct EvictFigures {
  std::uint64_t local_bytes = 0;
  double load_before = 0;  // of the machine, by others: 0 to 1
  unsigned rounds = 0;
  std::vector<EvictString> strings;
  std::vector<Skipped> failed;
};

// Of the JSON that `comex run --stats` writes: how often a page that had been away was missed.
Expected<std::uint64_t> parse_missed(const std::string& stats);
// Of the line that the load prints: seconds. An error if a page was wrong.
Expected<double> parse_seconds(const std::string& line);

}  // namespace comex::bench

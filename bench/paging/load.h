// The program that `comex bench paging` measures with: it fills a large piece of plain memory and then visits its
// pages, timed, and checks each. It knows nothing of comex and links nothing but the C++ library: a program as users
// have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/paging/load_order.h"

namespace comex::bench {

struct LoadOptions {
  std::uint64_t bytes = std::uint64_t{1} << 30;
  unsigned threads = 1;  // each has its own part of the memory
  std::vector<Pattern> passes;
  std::uint64_t seed = 1;
  bool asked = false;                    // waits for a line of input before each pass, and prints its seconds
  std::optional<std::uint64_t> corrupt;  // a page to spoil after the filling: shows that the check finds it
};

// Microseconds per page are those of the clock on the wall, by the pages of all threads.
struct LoadResult {
  struct Pass {
    Pattern pattern = Pattern::sequential;
    double us = 0;
  };
  std::uint64_t pages = 0;
  double fill_us = 0;
  std::vector<Pass> passes;
  std::uint64_t pages_resident = 0;  // in the end: shows that the system paged, and kept to its limit
  std::uint64_t pages_wrong = 0;
  std::string first_wrong;  // one line; empty when all were right
};

// Nothing if the memory cannot be had; then errno says why. REQUIRES: threads > 0, bytes hold a page for each.
std::optional<LoadResult> run_load(const LoadOptions& options);

// One line.
std::string to_json(const LoadOptions& options, const LoadResult& result);

}  // namespace comex::bench

#include "bench/evict/belady.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "bench/paging/load_order.h"

namespace comex::bench {
namespace {

TEST(Belady, best_theExampleOfTheTextbooks) {
  // Silberschatz, Galvin, Gagne: nine faults with three frames, six of which are first uses.
  const PageString uses{7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1};
  EXPECT_EQ(best_possible(uses, 3, 0), 3U);
}

TEST(Belady, best_aLoopMissesWhatDoesNotFit) {
  PageString uses;
  for (int round = 0; round < 10; ++round) {
    for (std::uint32_t page = 0; page < 1100; ++page) uses.push_back(page);
  }
  const std::uint64_t missed = best_possible(uses, 1000, 1100);
  EXPECT_GE(missed, 9U * 100);
  EXPECT_LE(missed, 9U * 102);
}

TEST(Belady, best_whatFitsIsNeverMissed) {
  PageString uses;
  for (std::uint32_t i = 0; i < 1000; ++i) uses.push_back(i % 64);
  EXPECT_EQ(best_possible(uses, 64, 0), 0U);
}

// By trying all: each page that could leave does, in turn.
std::uint64_t by_trying(const PageString& uses, std::size_t at, std::vector<std::uint32_t> here, std::uint64_t known) {
  for (; at < uses.size(); ++at) {
    const std::uint32_t page = uses[at];
    if (std::find(here.begin(), here.end(), page) != here.end()) continue;
    const std::uint64_t missed = known >> page & 1;
    known |= std::uint64_t{1} << page;
    if (here.size() < 3) {
      here.push_back(page);
      continue;
    }
    std::uint64_t fewest = UINT64_MAX;
    for (std::uint32_t& each : here) {
      const std::uint32_t leaves = std::exchange(each, page);
      fewest = std::min(fewest, missed + by_trying(uses, at + 1, here, known));
      each = leaves;
    }
    return fewest;
  }
  return 0;
}

TEST(Belady, best_nothingIsBetter) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    PageString uses;
    for (std::uint64_t i = 0; i < 13; ++i) uses.push_back(static_cast<std::uint32_t>(mix(seed * 100 + i) % 6));
    EXPECT_EQ(best_possible(uses, 3, 0), by_trying(uses, 0, {}, 0)) << seed;
  }
}

}  // namespace
}  // namespace comex::bench

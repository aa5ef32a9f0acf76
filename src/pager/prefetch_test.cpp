#include "pager/prefetch.h"

#include <gtest/gtest.h>

#include <random>

namespace comex {
namespace {

// A reader whose neighbours turn out to be of use as often as `useful` says. Returns how many pages were brought in
// for each fault.
double brought_per_fault(const NextPages& prefetcher, History& history, double useful, int faults) {
  std::mt19937 random(1);
  std::uint64_t brought = 0;
  for (int i = 0; i < faults; ++i) {
    const std::uint32_t size = prefetcher.around(history, 16);
    if (size > 1) prefetcher.brought(history, size - 1);
    brought += size - 1;
    for (std::uint32_t page = 1; page < size; ++page) {
      if (std::uniform_real_distribution<>(0, 1)(random) < useful) prefetcher.used(history);
    }
  }
  return static_cast<double>(brought) / faults;
}

TEST(NextPages, along_doublesWhileFaultsFollow) {
  const NextPages prefetcher;
  History history;
  history.expected = PageNo{10};
  EXPECT_EQ(prefetcher.along(history, PageNo{10}, 31), 2U);
  history.expected = PageNo{13};
  EXPECT_EQ(prefetcher.along(history, PageNo{13}, 31), 4U);
  EXPECT_EQ(prefetcher.along(history, PageNo{99}, 31), 0U);
}

TEST(NextPages, around_bringsNextToNothingThatIsNotUsed) {
  const NextPages prefetcher;
  History history;
  EXPECT_LT(brought_per_fault(prefetcher, history, 0.02, 100'000), 0.06);
}

TEST(NextPages, around_bringsWholeGroupsThatAreUsed) {
  const NextPages prefetcher;
  History history;
  brought_per_fault(prefetcher, history, 0.5, 5'000);
  EXPECT_EQ(prefetcher.around(history, 16), 16U);
  EXPECT_EQ(prefetcher.around(history, 8), 8U);
}

TEST(NextPages, around_learnsWhenThingsChange) {
  const NextPages prefetcher;
  History history;
  brought_per_fault(prefetcher, history, 0.5, 5'000);
  EXPECT_LT(brought_per_fault(prefetcher, history, 0, 10'000), 0.2);
  brought_per_fault(prefetcher, history, 0.5, 5'000);
  EXPECT_EQ(prefetcher.around(history, 16), 16U);
}

}  // namespace
}  // namespace comex

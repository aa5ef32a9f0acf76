#include "pager/prefetch/next.h"

#include <gtest/gtest.h>

#include <random>

namespace comex {
namespace {

using From = Miss::From;

// Far reads of scattered pages, whose neighbours turn out to be of use as often as `useful` says. Returns how many
// pages were brought in for each.
double brought_per_fault(const NextPages& prefetcher, History& history, double useful, int faults) {
  std::mt19937 random(1);
  std::uint64_t brought = 0;
  for (int i = 0; i < faults; ++i) {
    const Miss miss{PageNo{1'000'000 + random() % 1'000'000 * 100}, From::node, true};
    const Plan plan = prefetcher.plan(history, miss);
    const std::uint32_t pages = plan.before + plan.after;
    if (pages > 0) prefetcher.brought(history, miss, plan, Brought{.pages = pages, .mapped = plan.mapped});
    brought += pages;
    for (std::uint32_t page = 0; page < pages; ++page) {
      if (std::uniform_real_distribution<>(0, 1)(random) < useful) ++history.used;
    }
  }
  return static_cast<double>(brought) / faults;
}

std::uint32_t group_of(const NextPages& prefetcher, History& history) {
  const Plan plan = prefetcher.plan(history, Miss{PageNo{777}, From::node, true});
  return 1 + plan.before + plan.after;
}

TEST(NextPages, plan_doublesWhileFaultsFollow) {
  const NextPages prefetcher;
  History history;
  PageNo page{1000};
  for (const std::uint32_t after : {0U, 2U, 4U, 8U, 16U, 31U, 31U}) {
    const Miss miss{page, From::node};
    const Plan plan = prefetcher.plan(history, miss);
    EXPECT_EQ(plan.after, after);
    EXPECT_TRUE(plan.mapped);
    prefetcher.brought(history, miss, plan, Brought{.pages = after, .covered = after});
    page = page + (1 + after);
  }
  EXPECT_EQ(prefetcher.plan(history, Miss{page}).used, 31U);
  EXPECT_EQ(prefetcher.plan(history, Miss{PageNo{99}}).after, 0U);
}

TEST(NextPages, plan_aScanGoesOnPastWhatIsJustLeaving) {
  const NextPages prefetcher;
  History history;
  EXPECT_EQ(prefetcher.plan(history, Miss{PageNo{10}}).after, 0U);
  EXPECT_EQ(prefetcher.plan(history, Miss{PageNo{11}}).after, 2U);
  EXPECT_EQ(prefetcher.plan(history, Miss{PageNo{12}, From::staging}).after, 0U);
  EXPECT_EQ(prefetcher.plan(history, Miss{PageNo{500}, From::staging}).after, 0U);
  EXPECT_EQ(prefetcher.plan(history, Miss{PageNo{13}}).after, 4U);
}

TEST(NextPages, around_nothingFromNear) {
  const NextPages prefetcher;
  History history;
  history.group = 16;
  EXPECT_EQ(prefetcher.plan(history, Miss{PageNo{37}, From::node, false}).after, 0U);
  const Plan far = prefetcher.plan(history, Miss{PageNo{1037}, From::node, true});
  EXPECT_EQ(far.before, 1037U % 16);
  EXPECT_EQ(far.before + far.after, 15U);
  EXPECT_FALSE(far.mapped);
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
  EXPECT_EQ(group_of(prefetcher, history), 16U);
}

TEST(NextPages, around_learnsWhenThingsChange) {
  const NextPages prefetcher;
  History history;
  brought_per_fault(prefetcher, history, 0.5, 5'000);
  EXPECT_LT(brought_per_fault(prefetcher, history, 0, 10'000), 0.2);
  brought_per_fault(prefetcher, history, 0.5, 5'000);
  EXPECT_EQ(group_of(prefetcher, history), 16U);
}

}  // namespace
}  // namespace comex

#include "pager/prefetch/stride.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

TEST(Strides, plan_twoEqualDistancesAreAStride) {
  struct Step {
    std::uint64_t page;
    std::int64_t step;
    std::uint32_t after;
    std::uint32_t used;
  };
  const Step steps[] = {
      {1000, 1, 0, 0},  {1010, 10, 0, 0},                    // once is nothing
      {1020, 10, 2, 0}, {1050, 10, 4, 2}, {1100, 10, 8, 4},  // each where it is expected
      {1193, 93, 0, 0},                                      // out of line: begins again
      {1190, -3, 0, 0}, {1187, -3, 2, 0}, {1178, -3, 4, 2},
  };
  const Strides prefetcher;
  History history;
  for (const Step& step : steps) {
    const Miss miss{PageNo{step.page}};
    const Plan plan = prefetcher.plan(history, miss);
    EXPECT_EQ(plan.step.pages, step.step) << step.page;
    EXPECT_EQ(plan.after, step.after) << step.page;
    EXPECT_EQ(plan.used, step.used) << step.page;
    if (plan.after > 0) prefetcher.brought(history, miss, plan, Brought{.pages = plan.after, .covered = plan.after});
  }
}

TEST(Strides, plan_pagesThatAreJustLeavingBringNothing) {
  const Strides prefetcher;
  History history;
  for (const std::uint64_t page : {100, 110, 120, 130}) {
    EXPECT_EQ(prefetcher.plan(history, Miss{PageNo{page}, Miss::From::staging}).after, 0U);
  }
  EXPECT_EQ(prefetcher.plan(history, Miss{PageNo{140}}).after, 2U) << "but they are seen";
}

}  // namespace
}  // namespace comex

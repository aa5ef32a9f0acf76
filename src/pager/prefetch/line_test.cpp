#include "pager/prefetch/line.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

constexpr PageNo kStart{1'000'000};

TEST(Step, of_theNearestNumberOfPagesAndTheRest) {
  EXPECT_EQ(Step::of(24'000), (Step{6, -576}));
  EXPECT_EQ(Step::of(4096), (Step{1, 0}));
  EXPECT_EQ(Step::of(-5000), (Step{-1, -904}));
  for (const std::int64_t bytes : {24'000, -24'000, 4097, 8191, -6144}) EXPECT_EQ(Step::of(bytes).in_bytes(), bytes);
}

// Wherever it begins and whichever way it goes, each page is found at its own distance, and no page between two.
TEST(Line, stepsTo_isTheOppositeOfAt) {
  for (const std::int64_t bytes : {4096, 24'000, -24'000, 32'000, -4100, 4097, 40'960, -8191}) {
    for (const std::uint32_t offset : {0U, 1U, 2048U, 4095U}) {
      const Line line{kStart, offset, Step::of(bytes)};
      PageNo last = kStart;
      for (std::int64_t i = 1; i <= 64; ++i) {
        const PageNo page = line.at(i);
        EXPECT_EQ(line.steps_to(page, 64), static_cast<std::uint32_t>(i)) << bytes << " from " << offset;
        EXPECT_EQ(line.steps_to(page, static_cast<std::uint32_t>(i) - 1), 0U) << "further than allowed";
        const PageNo between = bytes > 0 ? last + 1 : PageNo{last.value - 1};
        EXPECT_TRUE(between == page || line.steps_to(between, 64) == 0) << bytes << " from " << offset;
        last = page;
      }
    }
  }
}

TEST(Line, stepsTo_withoutAStepNowhere) {
  EXPECT_EQ((Line{kStart, 0, {}}.steps_to(kStart + 1, 10)), 0U);
  EXPECT_EQ((Line{kStart, 0, {10}}.steps_to(kStart, 10)), 0U);
  EXPECT_EQ((Line{kStart, 0, {10}}.steps_to(PageNo{kStart.value - 10}, 10)), 0U);
}

}  // namespace
}  // namespace comex

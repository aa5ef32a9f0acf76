#include "plot/grid.h"

#include <gtest/gtest.h>

#include <limits>

namespace comex::plot {
namespace {

TEST(Grid, ACellShowsWhatItHasMostOf) {
  Grid grid(10, 10, 2);
  for (int i = 0; i < 3; ++i) grid.add(0.55, 0.01, 0);
  grid.add(0.55, 0.01, 1);
  ASSERT_EQ(grid.runs(0).size(), 1U);
  EXPECT_EQ(grid.runs(0)[0].column, 5U);
  EXPECT_EQ(grid.runs(0)[0].row, 9U);
  EXPECT_TRUE(grid.runs(1).empty());
}

TEST(Grid, NeighboursInARowAreOneRun) {
  Grid grid(4, 2, 1);
  for (const double x : {0.0, 0.3, 1.0}) grid.add(x, 1, 0);
  grid.add(0, 0, 0);
  const auto runs = grid.runs(0);
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].count, 2U);
  EXPECT_EQ(runs[1].column, 3U);
  EXPECT_EQ(runs[2].row, 1U);
}

TEST(Grid, WhatIsOutsideIsNotCounted) {
  Grid grid(4, 4, 1);
  for (const double bad : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    grid.add(bad, 0.5, 0);
    grid.add(0.5, bad, 0);
  }
  EXPECT_TRUE(grid.runs(0).empty());
}

}  // namespace
}  // namespace comex::plot

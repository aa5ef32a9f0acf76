#include "plot/scale.h"

#include <gtest/gtest.h>

#include <limits>

namespace comex::plot {
namespace {

std::vector<std::string> labels(const Scale& scale, int about) {
  std::vector<std::string> labels;
  for (const Tick& tick : scale.ticks(about)) labels.push_back(tick.label);
  return labels;
}

TEST(Scale, TicksAreRound) {
  EXPECT_EQ(labels(Scale(Scale::Kind::linear, 0, 10), 5), (std::vector<std::string>{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(labels(Scale(Scale::Kind::linear, -0.3, 0.31), 4), (std::vector<std::string>{"-0.2", "0", "0.2"}));
  EXPECT_EQ(labels(Scale(Scale::Kind::log, 0.5, 20), 5), (std::vector<std::string>{"0.5", "1", "2", "5", "10", "20"}));
  EXPECT_EQ(labels(Scale(Scale::Kind::log, 1, 10'000), 5),
            (std::vector<std::string>{"1", "10", "100", "1000", "10000"}));
}

TEST(Scale, PlacesValuesBetweenItsEnds) {
  const Scale linear(Scale::Kind::linear, 10, 20);
  EXPECT_DOUBLE_EQ(linear.place(10), 0);
  EXPECT_DOUBLE_EQ(linear.place(15), 0.5);
  const Scale log(Scale::Kind::log, 1, 100);
  EXPECT_DOUBLE_EQ(log.place(10), 0.5);
}

TEST(Scale, RoundedEndsHoldEverything) {
  const Scale linear = Scale(Scale::Kind::linear, 0, 9.3).rounded(5);
  EXPECT_DOUBLE_EQ(linear.least(), 0);
  EXPECT_DOUBLE_EQ(linear.most(), 10);
  const Scale log = Scale(Scale::Kind::log, 0.7, 30).rounded(5);
  EXPECT_DOUBLE_EQ(log.least(), 0.5);
  EXPECT_DOUBLE_EQ(log.most(), 50);
}

TEST(Scale, NothingToShowIsAScaleToo) {
  const double none = std::numeric_limits<double>::infinity();
  for (const auto kind : {Scale::Kind::linear, Scale::Kind::log}) {
    for (const Scale& scale : {Scale(kind, none, -none), Scale(kind, 0, 0), Scale(kind, 7, 7), Scale(kind, -1, 1)}) {
      EXPECT_LT(scale.least(), scale.most());
      EXPECT_FALSE(scale.rounded(5).ticks(5).empty());
    }
  }
}

}  // namespace
}  // namespace comex::plot

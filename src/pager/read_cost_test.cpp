#include "pager/read_cost.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

TEST(ReadCost, oneIn_unknownUntilBothAreMeasured) {
  ReadCost cost;
  EXPECT_EQ(cost.one_in(5), 5U);
  cost.note(32, 40'000);
  cost.note(1, 20'000);
  EXPECT_EQ(cost.one_in(5), 5U) << "of 32 pages nothing follows as long as the trip is not known";
  cost.note(32, 51'000);
  EXPECT_EQ(cost.one_in(5), 12U);
}

TEST(ReadCost, oneIn_dearTripsAreWorthMoreInVain) {
  ReadCost near;
  near.note(1, 600);
  near.note(11, 6'600);
  EXPECT_EQ(near.one_in(8), 2U);
  ReadCost far;
  far.note(1, 500'000);
  far.note(11, 510'000);
  EXPECT_EQ(far.one_in(8), 16U) << "there is a limit";
}

TEST(ReadCost, note_followsWhatChanges) {
  ReadCost cost;
  cost.note(1, 10'000);
  cost.note(2, 11'000);
  const std::uint32_t before = cost.one_in(8);
  for (int i = 0; i < 100; ++i) cost.note(1, 1'000);
  EXPECT_LT(cost.one_in(8), before);
}

}  // namespace
}  // namespace comex

#include "pager/usual_cost.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

TEST(UsualCost, note_oneFarAboveTheOthersHardlyCounts) {
  UsualCost cost;
  EXPECT_EQ(cost.ns(), 0U);
  for (int i = 0; i < 100; ++i) cost.note(1'000);
  EXPECT_EQ(cost.ns(), 1'000U);
  cost.note(10'000'000);
  EXPECT_LT(cost.ns(), 1'500U);
}

TEST(UsualCost, note_oneThatWasNearNothing) {
  UsualCost cost;
  cost.note(1);
  for (int i = 0; i < 50; ++i) cost.note(5'000);
  EXPECT_GT(cost.ns(), 4'000U);
}

TEST(UsualCost, note_followsWhatChangesForGood) {
  UsualCost cost;
  for (int i = 0; i < 10; ++i) cost.note(1'000);
  for (int i = 0; i < 50; ++i) cost.note(1'000'000);
  EXPECT_GT(cost.ns(), 900'000U);
  for (int i = 0; i < 100; ++i) cost.note(1'000);
  EXPECT_LT(cost.ns(), 1'100U);
}

}  // namespace
}  // namespace comex

// How much perftest is asked to measure.
#include "bench/perftest_turns.h"

#include <gtest/gtest.h>

namespace comex::bench {
namespace {

TEST(PerftestTurns, operationsFor_asManyAsFit) {
  EXPECT_EQ(operations_for(Millis(100), 10.0, 200), 10'000u);
  EXPECT_EQ(operations_for(Millis(100), 1000.0, 200), 200u);
  EXPECT_EQ(operations_for(Millis(100), 0.0, 200), 200u);
  EXPECT_EQ(operations_for(Millis(60'000), 1.0, 200), 100'000u);
}

}  // namespace
}  // namespace comex::bench

#include "pool/location.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

using FrameRun = Run;  // a test has a Run() of its own

TEST(Run, at_countsFromTheFirst) {
  constexpr FrameRun run{NodeId{3}, FrameNo{100}, 4};
  EXPECT_EQ(run.at(0), (Location{NodeId{3}, FrameNo{100}}));
  EXPECT_EQ(run.at(3), (Location{NodeId{3}, FrameNo{103}}));
}

TEST(Run, from_isTheTail) {
  constexpr FrameRun run{NodeId{3}, FrameNo{100}, 4};
  EXPECT_EQ(run.from(1), (FrameRun{NodeId{3}, FrameNo{101}, 3}));
  EXPECT_EQ(run.from(4).count, 0U);
  EXPECT_EQ(run.extent(), (Extent{FrameNo{100}, 4}));
}

}  // namespace
}  // namespace comex

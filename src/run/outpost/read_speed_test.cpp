#include "run/outpost/read_speed.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

void measure(ReadSpeed& speed, std::int64_t us, int times = 1) {
  for (int i = 0; i < times; ++i) speed.saw(1, Nanos(us * 1000));
}

TEST(ReadSpeed, whatIsNotKnownIsNotFaster) {
  ReadSpeed a;
  ReadSpeed b;
  EXPECT_FALSE(a.clearly_faster_than(b));
  measure(b, 100);
  EXPECT_FALSE(a.clearly_faster_than(b));
  EXPECT_FALSE(b.clearly_faster_than(a));
  EXPECT_LT(a.measure_after(b), 10U) << "soon known";
}

TEST(ReadSpeed, equalsDoNotTakeTurns) {
  ReadSpeed a;
  ReadSpeed b;
  measure(a, 100);
  measure(b, 110);
  for (int i = 0; i < 1000; ++i) {
    measure(a, i % 2 == 0 ? 80 : 125);
    measure(b, i % 2 == 0 ? 125 : 80);
    ASSERT_FALSE(a.clearly_faster_than(b));
    ASSERT_FALSE(b.clearly_faster_than(a));
  }
}

TEST(ReadSpeed, aNodeThatSlowsDownIsLeftAndFoundAgain) {
  ReadSpeed a;
  ReadSpeed b;
  measure(a, 20, 10);
  measure(b, 40, 10);
  EXPECT_TRUE(a.clearly_faster_than(b));
  measure(a, 500, 3);
  EXPECT_TRUE(b.clearly_faster_than(a));
  measure(a, 20, 60);
  EXPECT_TRUE(a.clearly_faster_than(b));
}

TEST(ReadSpeed, whatIsSlowIsMeasuredSeldom) {
  ReadSpeed fast;
  ReadSpeed slow;
  measure(fast, 50);
  measure(slow, 50'000);
  EXPECT_EQ(slow.measure_after(fast), 64'000U);
  EXPECT_EQ(fast.measure_after(slow), 64U);
}

TEST(ReadSpeed, longReadsSayNothing) {
  ReadSpeed speed;
  speed.saw(ReadSpeed::kMostPages + 1, Nanos(5));
  EXPECT_EQ(speed.ns(), 0U);
}

}  // namespace
}  // namespace comex

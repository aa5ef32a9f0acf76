#include "node/return_watch.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace comex {
namespace {

TEST(ReturnWatch, says_once_what_does_not_come_and_when_it_has) {
  ReturnWatch watch(Millis(1'000));
  auto now = Clock::now();
  EXPECT_FALSE(watch.look(0, 1, now));
  EXPECT_FALSE(watch.look(64 * kMiB, 2, now));
  now += Millis(999);
  EXPECT_FALSE(watch.look(32 * kMiB, 2, now)) << "it comes";
  now += Millis(999);
  EXPECT_FALSE(watch.look(32 * kMiB, 2, now));
  now += Millis(1);
  const auto told = watch.look(32 * kMiB, 2, now);
  ASSERT_TRUE(told);
  EXPECT_NE(told->find("2 clients do not give back 32.0 MiB"), std::string::npos) << *told;
  now += Millis(5'000);
  EXPECT_FALSE(watch.look(32 * kMiB, 2, now));
  EXPECT_TRUE(watch.look(0, 0, now));
  EXPECT_FALSE(watch.look(0, 0, now));
}

TEST(ReturnWatch, a_larger_wish_is_no_progress) {
  ReturnWatch watch(Millis(1'000));
  auto now = Clock::now();
  EXPECT_FALSE(watch.look(10 * kMiB, 1, now));
  now += Millis(900);
  EXPECT_FALSE(watch.look(20 * kMiB, 1, now));
  now += Millis(100);
  EXPECT_TRUE(watch.look(20 * kMiB, 1, now));
}

}  // namespace
}  // namespace comex

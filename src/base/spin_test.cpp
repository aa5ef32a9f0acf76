#include "base/spin.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

using std::chrono::microseconds;

TEST(SpinPolicy, never_spins_with_a_limit_of_zero) {
  SpinPolicy policy(Nanos(0));
  int calls = 0;
  EXPECT_FALSE(policy.spin([&] { return ++calls > 1; }));
  EXPECT_EQ(calls, 1) << "it looks once, and leaves";
}

TEST(SpinPolicy, long_waits_shrink_the_budget_and_short_ones_bring_it_back) {
  SpinPolicy policy(microseconds(100));
  if (policy.budget() == Nanos(0)) return;  // a single core: never spins
  for (int i = 0; i < 30; ++i) policy.observe(std::chrono::milliseconds(10));
  EXPECT_EQ(policy.budget(), Nanos(0));
  policy.observe(microseconds(60));
  EXPECT_GT(policy.budget(), Nanos(0));
  for (int i = 0; i < 10; ++i) policy.observe(microseconds(60));
  EXPECT_EQ(policy.budget(), microseconds(100));
}

// As where every sleep ends late: it must be found out that what is waited for comes soon.
TEST(SpinPolicy, sleepers_try_again_now_and_then) {
  SpinPolicy policy(std::chrono::seconds(5));
  if (policy.budget() == Nanos(0)) return;
  for (int i = 0; i < 64; ++i) policy.observe(std::chrono::seconds(10));
  ASSERT_EQ(policy.budget(), Nanos(0));
  int tries = 0;
  for (int i = 0; i < 256 && policy.budget() == Nanos(0); ++i) {
    int calls = 0;
    tries += policy.spin([&] { return ++calls > 3; });
  }
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(policy.budget(), std::chrono::seconds(5)) << "and it was worth it";
}

TEST(SpinPolicy, returns_true_as_soon_as_ready) {
  SpinPolicy policy(std::chrono::milliseconds(100));
  int calls = 0;
  policy.spin([&] { return ++calls >= 1; });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace comex

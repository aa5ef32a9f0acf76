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

TEST(SpinPolicy, returns_true_as_soon_as_ready) {
  SpinPolicy policy(std::chrono::milliseconds(100));
  int calls = 0;
  policy.spin([&] { return ++calls >= 1; });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace comex

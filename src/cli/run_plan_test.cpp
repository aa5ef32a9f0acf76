#include "cli/run_plan.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace comex {
namespace {

HostMemory host(std::uint64_t available) {
  return HostMemory{.total = 16 * kGiB, .available = available, .huge_free = kGiB, .limited = false};
}

TEST(RunPlanTest, auto_isWhatTheHostCanSpare) {
  RunSettings settings;
  settings.local.reset();
  const auto plan = plan_run(settings, host(8 * kGiB), false);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->local, 8 * kGiB - 16 * kGiB / 10 / 4096 * 4096 - 4096) << "a tenth of all is the host's";
  EXPECT_EQ(plan->hard, plan->local + (8 * kGiB - plan->local) / 2);
  EXPECT_EQ(plan->own_memory, 0U);
}

TEST(RunPlanTest, auto_withANodeOfItsOwnSharesWithIt) {
  RunSettings settings;
  settings.local.reset();
  const auto plan = plan_run(settings, host(8 * kGiB), true);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_NEAR(static_cast<double>(plan->local), static_cast<double>(plan->own_memory), 8192);
  EXPECT_LT(plan->local + plan->own_memory, 8 * kGiB);
}

TEST(RunPlanTest, aNodeOfItsOwn_severalTimesTheBudgetIfThatIsThere) {
  RunSettings settings;
  settings.local = 512 * kMiB;
  EXPECT_EQ(plan_run(settings, host(8 * kGiB), true)->own_memory, 2 * kGiB);
  settings.local = 16 * kMiB;
  EXPECT_EQ(plan_run(settings, host(8 * kGiB), true)->own_memory, kGiB);
  settings.local = 6 * kGiB;
  EXPECT_LT(plan_run(settings, host(8 * kGiB), true)->own_memory, kGiB);
}

TEST(RunPlanTest, refusals_sayWhatToChange) {
  const auto refusal = [](const RunSettings& settings, std::uint64_t available, bool own) {
    const auto plan = plan_run(settings, host(available), own);
    return plan ? std::string("no error") : plan.error().message;
  };
  RunSettings settings;
  settings.local = 15 * kMiB;
  EXPECT_EQ(refusal(settings, kGiB, false), "--local 15.0 MiB: the least is 16.0 MiB");
  settings.local.reset();
  EXPECT_NE(refusal(settings, kGiB, false).find("--local auto: this host can spare 0 B"), std::string::npos);
  settings.local = 512 * kMiB;
  EXPECT_NE(refusal(settings, kGiB, true).find("--pool"), std::string::npos);
  settings.hard = 511 * kMiB;
  EXPECT_NE(refusal(settings, 8 * kGiB, false).find("--hard 511 MiB is less"), std::string::npos);
  settings.hard = 512 * kMiB;
  EXPECT_EQ(plan_run(settings, host(8 * kGiB), false)->hard, 512 * kMiB);
}

}  // namespace
}  // namespace comex

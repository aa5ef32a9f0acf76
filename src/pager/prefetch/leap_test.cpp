#include "pager/prefetch/leap.h"

#include <gtest/gtest.h>

#include <vector>

namespace comex {
namespace {

using From = Miss::From;

class LeapTest : public ::testing::Test {
 protected:
  // A fault; all that is planned is brought.
  Plan fault(std::uint64_t page, From from = From::node, bool far = false) {
    const Miss miss{PageNo{page}, from, far};
    const Plan plan = leap_.plan(history_, miss);
    const std::uint32_t pages = plan.before + plan.after;
    if (pages > 0) {
      leap_.brought(history_, miss, plan, Brought{.pages = pages, .covered = plan.after, .mapped = plan.mapped});
    }
    last_ = plan;
    return plan;
  }
  // Goes on where the last plan ends, until the window is as large as can be. Returns the page to fault on next.
  std::uint64_t grow(std::uint64_t page, std::int64_t step) {
    for (int i = 0; i < 12; ++i) page += static_cast<std::uint64_t>(step * (1 + fault(page).after));
    return page;
  }

  Leap leap_;
  History history_;
  Plan last_;
};

TEST_F(LeapTest, plan_growsWithWhatIsUsed) {
  std::uint64_t page = 10'000;
  for (const std::uint32_t after : {0U, 0U, 1U, 2U, 4U, 8U, 16U, 31U, 31U}) {
    const Plan plan = fault(page);
    EXPECT_EQ(plan.after, after) << page;
    EXPECT_EQ(plan.before, 0U);
    EXPECT_TRUE(plan.mapped);
    page += 10 * (1 + after);
  }
  EXPECT_EQ(last_.step.pages, 10);
  EXPECT_EQ(last_.used, 31U);
}

TEST_F(LeapTest, plan_backwardsToo) {
  grow(1'000'000, -3);
  EXPECT_EQ(last_.step.pages, -3);
  EXPECT_EQ(last_.after, 31U);
}

TEST_F(LeapTest, plan_wideStridesToo) {
  grow(1'000'000, 5000);
  EXPECT_EQ(last_.step.pages, 5000);
  EXPECT_EQ(last_.after, 31U);
}

TEST_F(LeapTest, plan_halvedAtMost) {
  const std::uint64_t page = grow(10'000, 1);
  std::vector<std::uint32_t> windows;
  std::uint64_t away = page;
  for (const std::uint64_t jump : {3, 29, 13, 11, 7, 9, 5}) {  // out of line, and near
    away += jump;
    const Plan plan = fault(away);
    windows.push_back(plan.before + plan.after);
    away += plan.after;
  }
  EXPECT_EQ(windows, (std::vector<std::uint32_t>{15, 7, 3, 1, 0, 0, 0}));
}

TEST_F(LeapTest, plan_withoutATrendAroundThePageWithTheLast) {
  FaultStream& stream = history_.streams[3];
  stream.begin(PageNo{5000});
  stream.step = {4};
  stream.window = 16;
  for (const std::int32_t delta : {1, 2, 3, 4, 5, 6, 7, 8}) {
    stream.deltas.push(delta);
    stream.byte_deltas.push(delta * static_cast<std::int32_t>(kPageSize));
  }
  History before = history_;
  Plan plan = fault(5030);
  EXPECT_EQ(plan.step.pages, 4);
  EXPECT_EQ(plan.before, 4U);
  EXPECT_EQ(plan.after, 4U);
  EXPECT_TRUE(plan.mapped) << "a near read costs no more by itself";
  history_ = before;
  plan = fault(5030, From::node, true);
  EXPECT_EQ(plan.before + plan.after, 8U);
  EXPECT_FALSE(plan.mapped) << "it is a guess, and its use will be seen";
  fault(5034, From::buffer);
  fault(5038, From::buffer);
  plan = fault(5042, From::node, true);
  EXPECT_EQ(plan.after, 4U) << "two were used";
  history_ = before;
  plan = fault(5030, From::zeros);
  EXPECT_EQ(plan.before + plan.after, 0U) << "nobody guesses zeros";
}

TEST_F(LeapTest, plan_followsANewTrend) {
  std::uint64_t page = grow(10'000, 1);
  int faults = 0;
  while (last_.step.pages != 7 && faults < 100) {
    page += 7;
    if (page <= history_.streams.front().last.value + last_.after * static_cast<std::uint64_t>(last_.step.pages))
      continue;
    fault(page);
    ++faults;
  }
  EXPECT_LE(faults, 9);
}

TEST_F(LeapTest, plan_pagesThatAreJustLeavingDoNotStopAStream) {
  std::uint64_t page = grow(10'000, 2);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(fault(page, From::staging).after, 0U);
    page += 2;
  }
  EXPECT_EQ(fault(page).after, 31U);
}

TEST_F(LeapTest, plan_aJumpElsewhereAndBack) {
  const std::uint64_t page = grow(10'000, 10);
  for (std::uint64_t i = 1; i <= 20; ++i) EXPECT_EQ(fault(1'000'000 + i * i * 1000).after, 0U);
  EXPECT_EQ(fault(page).after, 31U) << "a stream of its own goes on as if nothing had happened";
}

}  // namespace
}  // namespace comex

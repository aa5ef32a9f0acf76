#include "run/outpost/run_list.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>

namespace comex {
namespace {

constexpr auto kAll = [](const comex::Run&) { return true; };

comex::Run run(std::uint32_t first, std::uint32_t count, std::uint16_t node = 1) {
  return {NodeId{node}, FrameNo{first}, count};
}

class RunListTest : public ::testing::Test {
 protected:
  std::array<comex::Run, 8> memory_;
  RunList list_{memory_.data(), 8};
};

TEST_F(RunListTest, take_consecutiveTakesAreNeighbours) {
  ASSERT_TRUE(list_.add(run(0, 100)));
  EXPECT_EQ(list_.take(10, kAll), run(0, 10));
  EXPECT_EQ(list_.take(10, kAll), run(10, 10));
  EXPECT_EQ(list_.frames(), 80U);
}

TEST_F(RunListTest, take_theSmallestThatFitsElseTheLargest) {
  for (const auto& r : {run(0, 5), run(100, 50), run(200, 20)}) ASSERT_TRUE(list_.add(r));
  EXPECT_EQ(list_.take(20, kAll), run(200, 20));
  EXPECT_EQ(list_.take(64, kAll), run(100, 50));
  EXPECT_EQ(list_.take(64, kAll), run(0, 5));
  EXPECT_FALSE(list_.take(1, kAll));
}

TEST_F(RunListTest, take_onlyOfUsableNodes) {
  ASSERT_TRUE(list_.add(run(0, 50, 1)));
  ASSERT_TRUE(list_.add(run(0, 5, 2)));
  const auto of_two = [](const comex::Run& each) { return each.node == NodeId{2}; };
  EXPECT_EQ(list_.take(10, of_two), run(0, 5, 2));
  EXPECT_FALSE(list_.take(10, of_two));
  list_.drop_if([](const comex::Run& each) { return each.node == NodeId{1}; });
  EXPECT_EQ(list_.frames(), 0U);
  EXPECT_TRUE(list_.empty());
}

TEST_F(RunListTest, putBack_growsWhatItWasCutFromAndNothingElse) {
  ASSERT_TRUE(list_.add(run(100, 50)));
  const auto taken = list_.take(10, kAll).value();
  ASSERT_TRUE(list_.put_back(taken.from(4)));
  EXPECT_EQ(list_.runs().size(), 1U);
  EXPECT_EQ(list_.runs()[0], run(104, 46));
  // A neighbour that was never part of it may be in another slab.
  ASSERT_TRUE(list_.put_back(run(100, 4)));
  EXPECT_EQ(list_.runs().size(), 1U);
  ASSERT_TRUE(list_.put_back(run(90, 10)));
  EXPECT_EQ(list_.runs().size(), 2U);
}

TEST_F(RunListTest, add_full) {
  for (std::uint32_t i = 0; i < 8; ++i) ASSERT_TRUE(list_.add(run(i * 10, 1)));
  EXPECT_FALSE(list_.add(run(100, 1)));
  EXPECT_EQ(list_.frames(), 8U);
  std::array<comex::Run, 16> out;
  EXPECT_EQ(list_.move_out(out), 8U);
  EXPECT_TRUE(list_.empty());
}

TEST_F(RunListTest, random_noFrameIsThereTwiceOrGone) {
  std::mt19937 random(1);
  std::set<std::uint32_t> there;
  std::vector<comex::Run> out;
  for (std::uint32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(list_.add(run(i * 64, 64)));
    for (std::uint32_t f = 0; f < 64; ++f) there.insert(i * 64 + f);
  }
  for (int step = 0; step < 50'000; ++step) {
    if (random() % 2 == 0) {
      const auto taken = list_.take(static_cast<std::uint32_t>(random() % 20 + 1), kAll);
      ASSERT_EQ(taken.has_value(), !there.empty());
      if (!taken) continue;
      for (std::uint32_t i = 0; i < taken->count; ++i) ASSERT_EQ(there.erase(taken->at(i).frame.value), 1U);
      out.push_back(*taken);
    } else if (!out.empty()) {
      const std::size_t i = random() % 3 == 0 ? random() % out.size() : out.size() - 1;
      if (list_.put_back(out[i])) {
        for (std::uint32_t f = 0; f < out[i].count; ++f) there.insert(out[i].at(f).frame.value);
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    ASSERT_EQ(list_.frames(), there.size());
    for (const auto& r : list_.runs()) ASSERT_EQ(r.first.value / 64, (r.first.value + r.count - 1) / 64);
  }
}

}  // namespace
}  // namespace comex

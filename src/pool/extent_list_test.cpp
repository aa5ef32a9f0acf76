#include "pool/extent_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace comex {
namespace {

using FrameRun = Run;  // a test has a Run() of its own

constexpr NodeId kNode{4};
constexpr unsigned kSlabOrder = 9;

Extent extent(std::uint32_t first, std::uint32_t count) {
  return Extent{FrameNo{first}, count};
}
FrameRun run(std::uint32_t first, std::uint32_t count) {
  return FrameRun{kNode, FrameNo{first}, count};
}

class ExtentListTest : public ::testing::Test {
 protected:
  ExtentListTest() { list_.reset(kNode, kSlabOrder); }
  ExtentList list_{8};
};

TEST_F(ExtentListTest, take_fromNothing) {
  EXPECT_FALSE(list_.take(1));
  EXPECT_FALSE(list_.take(0));
}

TEST_F(ExtentListTest, take_consecutive) {
  ASSERT_TRUE(list_.add(kNode, extent(100, 10)));
  EXPECT_EQ(list_.take(4)->run, run(100, 4));
  const auto taken = list_.take(4);
  EXPECT_EQ(taken->run, run(104, 4));
  EXPECT_EQ(taken->left, 2U);
  EXPECT_EQ(list_.frames(), 2U);
  EXPECT_EQ(list_.taken(), 8U);
}

TEST_F(ExtentListTest, take_prefersOneExtentThatGivesAll) {
  ASSERT_TRUE(list_.add(kNode, extent(0, 10)));
  ASSERT_TRUE(list_.add(kNode, extent(128, 128)));
  ASSERT_TRUE(list_.add(kNode, extent(300, 64)));
  EXPECT_EQ(list_.take(64)->run, run(300, 64)) << "the smallest that fits";
  EXPECT_EQ(list_.take(64)->run, run(128, 64));
}

TEST_F(ExtentListTest, take_largestWhenNoneGivesAll) {
  ASSERT_TRUE(list_.add(kNode, extent(0, 10)));
  ASSERT_TRUE(list_.add(kNode, extent(100, 30)));
  EXPECT_EQ(list_.take(64)->run, run(100, 30));
  EXPECT_EQ(list_.take(64)->run, run(0, 10));
  EXPECT_FALSE(list_.take(64));
}

TEST_F(ExtentListTest, add_refusesBeyondCapacity) {
  for (std::uint32_t i = 0; i < 8; ++i) EXPECT_TRUE(list_.add(kNode, extent(i * 10, 5)));
  EXPECT_FALSE(list_.add(kNode, extent(1000, 5)));
  EXPECT_EQ(list_.frames(), 40U);
}

TEST_F(ExtentListTest, add_refusesAnotherSessionsFrames) {
  EXPECT_FALSE(list_.add(NodeId{5}, extent(0, 5)));
  EXPECT_FALSE(list_.put_back(FrameRun{NodeId{5}, FrameNo{0}, 5}));
  list_.reset(kNowhere, 0);
  EXPECT_FALSE(list_.add(kNowhere, extent(0, 5))) << "between two sessions nothing is accepted";
}

TEST_F(ExtentListTest, reset_dropsAndCounts) {
  ASSERT_TRUE(list_.add(kNode, extent(0, 100)));
  (void)list_.take(30);
  EXPECT_EQ(list_.reset(NodeId{9}, kSlabOrder), 30U);
  EXPECT_EQ(list_.frames(), 0U);
  EXPECT_FALSE(list_.take(1));
  ASSERT_TRUE(list_.add(NodeId{9}, extent(0, 100)));
  EXPECT_EQ(list_.take(1)->run.node, NodeId{9});
}

TEST_F(ExtentListTest, putBack_growsTheExtentItCameFrom) {
  ASSERT_TRUE(list_.add(kNode, extent(0, 100)));
  (void)list_.take(64);
  ASSERT_TRUE(list_.put_back(run(10, 54)));
  EXPECT_EQ(list_.frames(), 90U);
  EXPECT_EQ(list_.taken(), 10U);
  EXPECT_EQ(list_.take(90)->run, run(10, 90)) << "in one piece";
}

TEST_F(ExtentListTest, putBack_neverJoinsTwoSlabs) {
  ASSERT_TRUE(list_.add(kNode, extent(448, 64)));  // ends with its slab
  (void)list_.take(64);
  ASSERT_TRUE(list_.add(kNode, extent(512, 64)));
  (void)list_.take(0);
  ASSERT_TRUE(list_.put_back(run(500, 12)));
  EXPECT_EQ(list_.take(76)->run.count, 64U);
  EXPECT_EQ(list_.take(76)->run.count, 12U);
}

TEST_F(ExtentListTest, drain_movesAllOut) {
  ASSERT_TRUE(list_.add(kNode, extent(0, 100)));
  ASSERT_TRUE(list_.add(kNode, extent(200, 7)));
  std::vector<Extent> out;
  list_.drain(out);
  EXPECT_EQ(out, (std::vector{extent(200, 7), extent(0, 100)}));
  EXPECT_EQ(list_.frames(), 0U);
}

TEST_F(ExtentListTest, drain_leavesWhatIsToBeKept) {
  for (std::uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(list_.add(kNode, extent(i * 100, 10)));
  std::vector<Extent> out;
  list_.drain(out, 15);
  EXPECT_EQ(out.size(), 2U);
  EXPECT_EQ(list_.frames(), 20U);
  list_.drain(out, 100);
  EXPECT_EQ(list_.frames(), 20U);
}

// Random takes, put-backs and adds against a set of frames: none is ever given out twice, none is lost.
TEST_F(ExtentListTest, model_noFrameTwiceNoneLost) {
  constexpr std::uint32_t kFrames = 4096;
  std::mt19937 random(11);
  ExtentList list(1024);
  list.reset(kNode, kSlabOrder);
  std::vector<bool> out(kFrames, false);
  for (std::uint32_t at = 0; at < kFrames; at += 128) ASSERT_TRUE(list.add(kNode, extent(at, 128)));
  std::vector<FrameRun> held;
  for (int step = 0; step < 50'000; ++step) {
    if (random() % 2 == 0) {
      const auto taken = list.take(1 + random() % 64);
      if (!taken) continue;
      for (std::uint32_t i = 0; i < taken->run.count; ++i) {
        const auto frame = taken->run.at(i).frame.value;
        ASSERT_FALSE(out[frame]);
        out[frame] = true;
      }
      held.push_back(taken->run);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      if (!list.put_back(held.back())) continue;
      for (std::uint32_t i = 0; i < held.back().count; ++i) out[held.back().at(i).frame.value] = false;
      held.pop_back();
    }
    const auto held_frames = static_cast<std::uint32_t>(std::count(out.begin(), out.end(), true));
    ASSERT_EQ(list.frames(), kFrames - held_frames);
    ASSERT_EQ(list.taken(), held_frames);
  }
}

TEST_F(ExtentListTest, take_fromManyThreadsGivesEachFrameOnce) {
  constexpr std::uint32_t kFrames = 1 << 16;
  ExtentList list(1024);
  list.reset(kNode, kSlabOrder);
  for (std::uint32_t at = 0; at < kFrames; at += 128) ASSERT_TRUE(list.add(kNode, extent(at, 128)));
  std::vector<std::vector<FrameRun>> taken(4);
  std::vector<std::thread> threads;
  for (auto& mine : taken) {
    threads.emplace_back([&list, &mine] {
      while (const auto got = list.take(3)) mine.push_back(got->run);
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<bool> out(kFrames, false);
  for (const auto& mine : taken) {
    for (const auto& r : mine) {
      for (std::uint32_t i = 0; i < r.count; ++i) {
        EXPECT_FALSE(out[r.at(i).frame.value]);
        out[r.at(i).frame.value] = true;
      }
    }
  }
  EXPECT_EQ(std::count(out.begin(), out.end(), true), kFrames);
}

TEST_F(ExtentListTest, take_isFast) {
  constexpr std::uint32_t kFrames = 1 << 20;
  ExtentList list(kFrames / 128);
  list.reset(kNode, kSlabOrder);
  for (std::uint32_t at = 0; at < kFrames; at += 128) ASSERT_TRUE(list.add(kNode, extent(at, 128)));
  const auto start = Clock::now();
  while (list.take(1)) {
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  RecordProperty("takes_per_second", std::to_string(kFrames / seconds));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
  EXPECT_LT(seconds, 1.0) << "a million frames a second is the least";
#endif
}

}  // namespace
}  // namespace comex

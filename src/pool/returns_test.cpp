#include "pool/returns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "wire/message.h"

namespace comex {
namespace {

using FrameRun = Run;  // a test has a Run() of its own

constexpr NodeId kNode{2};
constexpr unsigned kSlabOrder = 9;

FrameRun run(std::uint32_t first, std::uint32_t count = 1) {
  return FrameRun{kNode, FrameNo{first}, count};
}
Extent extent(std::uint32_t first, std::uint32_t count) {
  return Extent{FrameNo{first}, count};
}

ReturnsConfig small() {
  ReturnsConfig config;
  config.batch = 4;
  config.capacity = 8;
  return config;
}

class ReturnsTest : public ::testing::Test {
 protected:
  ReturnsTest() { returns_.reset(kNode, kSlabOrder); }
  std::vector<Extent> batch() {
    std::vector<Extent> out;
    returns_.take_batch(out);
    return out;
  }
  Returns returns_{small()};
};

TEST_F(ReturnsTest, put_tellsTheSenderOfTheFirstAndOfAFullBatch) {
  EXPECT_TRUE(returns_.put(run(0)));
  EXPECT_FALSE(returns_.put(run(10)));
  EXPECT_FALSE(returns_.put(run(20)));
  EXPECT_TRUE(returns_.put(run(30)));
  EXPECT_FALSE(returns_.put(run(40)));
}

TEST_F(ReturnsTest, dueAt_byAgeOrByCount) {
  EXPECT_FALSE(returns_.due_at());
  returns_.put(run(0));
  EXPECT_GT(*returns_.due_at(), Clock::now() + Millis(1)) << "waits for company";
  for (std::uint32_t i = 1; i < 4; ++i) returns_.put(run(i * 10));
  EXPECT_LE(*returns_.due_at(), Clock::now());
}

TEST_F(ReturnsTest, takeBatch_sortsAndMerges) {
  for (const std::uint32_t frame : {7U, 5U, 100U, 6U}) returns_.put(run(frame));
  EXPECT_EQ(batch(), (std::vector{extent(5, 3), extent(100, 1)}));
  EXPECT_TRUE(batch().empty());
  EXPECT_EQ(returns_.returned(), 4U);
}

TEST_F(ReturnsTest, put_extendsTheLastExtent) {
  for (std::uint32_t frame = 0; frame < 100; ++frame) returns_.put(run(frame));
  EXPECT_EQ(batch(), (std::vector{extent(0, 100)}));
  EXPECT_EQ(returns_.stranded(), 0U);
}

TEST_F(ReturnsTest, merging_stopsAtSlabs) {
  returns_.put(run(511));
  returns_.put(run(512));
  returns_.put(run(510));
  EXPECT_EQ(batch(), (std::vector{extent(510, 2), extent(512, 1)}));
}

TEST_F(ReturnsTest, put_beyondCapacityIsCountedNotSent) {
  for (std::uint32_t i = 0; i < 10; ++i) returns_.put(run(i * 10));
  EXPECT_EQ(returns_.stranded(), 2U);
  EXPECT_EQ(batch().size(), 8U);
}

TEST_F(ReturnsTest, put_ignoresFramesOfALostSession) {
  EXPECT_FALSE(returns_.put(FrameRun{NodeId{1}, FrameNo{0}, 1}));
  returns_.put(run(0, 5));
  EXPECT_EQ(returns_.reset(NodeId{3}, kSlabOrder), 5U);
  EXPECT_FALSE(returns_.due_at());
  EXPECT_FALSE(returns_.put(run(0)));
  EXPECT_TRUE(batch().empty());
}

TEST_F(ReturnsTest, sortAndMerge_dropsWhatIsThereTwice) {
  std::vector<Extent> extents{extent(0, 10), extent(2, 3), extent(8, 4), extent(20, 1), extent(20, 1)};
  sort_and_merge(extents, kSlabOrder);
  EXPECT_EQ(extents, (std::vector{extent(0, 12), extent(20, 1)}));
}

TEST(Returns, takeBatch_neverMoreThanAMessageTakes) {
  Returns returns{ReturnsConfig{}};
  returns.reset(kNode, kSlabOrder);
  constexpr std::uint32_t kFrames = 3 * wire::kMaxExtents;
  for (std::uint32_t i = 0; i < kFrames; ++i) returns.put(run(i * 2));
  std::size_t total = 0;
  std::vector<Extent> out;
  for (returns.take_batch(out); !out.empty(); returns.take_batch(out)) {
    EXPECT_LE(out.size(), wire::kMaxExtents);
    total += out.size();
  }
  EXPECT_EQ(total, kFrames);
}

// A million scattered frames at once, as when a program unmaps gigabytes: all of them leave, each once.
TEST(Returns, put_manyFromManyThreads) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kEach = 100'000;
  Returns returns{ReturnsConfig{}};
  returns.reset(kNode, kSlabOrder);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&returns, t] {
      for (std::uint32_t i = 0; i < kEach; ++i) returns.put(run((i * kThreads + t) * 2));
    });
  }
  std::vector<bool> seen(kThreads * kEach * 2, false);
  std::uint64_t total = 0;
  std::vector<Extent> out;
  const auto collect = [&] {
    returns.take_batch(out);
    for (const Extent& e : out) {
      for (std::uint32_t i = 0; i < e.count; ++i) {
        EXPECT_FALSE(seen[e.first.value + i]);
        seen[e.first.value + i] = true;
        ++total;
      }
    }
  };
  const Deadline cap(std::chrono::seconds(60));
  while (total < std::uint64_t{kThreads} * kEach && !cap.passed()) collect();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(total, std::uint64_t{kThreads} * kEach);
  EXPECT_EQ(returns.stranded(), 0U);
}

}  // namespace
}  // namespace comex

#include "pool/batch.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace comex {
namespace {

using FrameRun = Run;  // a test has a Run() of its own

constexpr NodeId kA{1}, kB{2};

class TargetTest : public ::testing::Test {
 protected:
  std::vector<Segment> segments_of(std::size_t write) {
    const auto span = target_.writes[write].transfer.segments;
    return {span.begin(), span.end()};
  }
  void expect(const Segment& segment, std::uint32_t frame, std::uint32_t count, std::uint32_t slot) {
    EXPECT_EQ(segment.first.value, frame);
    EXPECT_EQ(segment.count, count);
    EXPECT_EQ(segment.local, memory_.data() + slot * kPageSize);
  }
  Slots assign(Slots slots, const FrameRun& run) {
    const Slots given = homes_.assign(slots, run);
    target_.at = homes_.at;  // as of frames that stand for themselves
    return given;
  }
  void prepare(Slots slots, std::byte* memory) {
    target_.slots = slots;
    target_.prepare(homes_.starts, memory);
  }
  Homes homes_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kBatchBytes);
  std::unique_ptr<Target> owner_ = std::make_unique<Target>();
  Target& target_ = *owner_;
};

TEST(Slots, below) {
  EXPECT_EQ(slots_below(0), 0U);
  EXPECT_EQ(slots_below(3), 7U);
  EXPECT_EQ(slots_below(64), ~Slots{0});
}

TEST_F(TargetTest, prepare_aWholeRunIsOneWriteOfOneSegment) {
  EXPECT_EQ(assign(slots_below(64), FrameRun{kA, FrameNo{128}, 64}), slots_below(64));
  prepare(slots_below(64), memory_.data());
  ASSERT_EQ(target_.write_count, 1U);
  EXPECT_EQ(target_.writes[0].transfer.pages(), 64U);
  ASSERT_EQ(segments_of(0).size(), 1U);
  expect(segments_of(0)[0], 128, 64, 0);
  EXPECT_EQ(target_.writes[0].transfer.priority, Priority::bulk);
}

TEST_F(TargetTest, prepare_leavesOutSlotsThatAreNotToGo) {
  assign(slots_below(5), FrameRun{kA, FrameNo{100}, 5});
  prepare(0b11011, memory_.data());
  ASSERT_EQ(target_.write_count, 1U);
  ASSERT_EQ(segments_of(0).size(), 2U);
  expect(segments_of(0)[0], 100, 2, 0);
  expect(segments_of(0)[1], 103, 2, 3);
}

TEST_F(TargetTest, prepare_oneWritePerNode) {
  EXPECT_EQ(assign(0b1111, FrameRun{kA, FrameNo{10}, 2}), 0b0011U);
  EXPECT_EQ(assign(0b1100, FrameRun{kB, FrameNo{12}, 2}), 0b1100U);
  prepare(0b1111, memory_.data());
  ASSERT_EQ(target_.write_count, 2U);
  EXPECT_EQ(target_.writes[0].node, kA);
  EXPECT_EQ(target_.writes[0].slots, 0b0011U);
  EXPECT_EQ(target_.writes[1].node, kB);
  expect(segments_of(1)[0], 12, 2, 2);
}

TEST_F(TargetTest, prepare_twoRunsThatMeetAreTwoSegments) {
  assign(0b1111, FrameRun{kA, FrameNo{510}, 2});
  assign(0b1100, FrameRun{kA, FrameNo{512}, 2});  // perhaps the next slab
  prepare(0b1111, memory_.data());
  ASSERT_EQ(target_.write_count, 1U);
  EXPECT_EQ(segments_of(0).size(), 2U);
}

TEST_F(TargetTest, prepare_scatteredFramesStayWithinTheLimits) {
  for (std::uint32_t slot = 0; slot < 64; ++slot) {
    assign(Slots{1} << slot, FrameRun{slot % 2 == 0 ? kA : kB, FrameNo{slot * 10}, 1});
  }
  prepare(~Slots{0}, memory_.data());
  EXPECT_EQ(target_.write_count, 2U) << "one for each node, however they take turns";
  for (const Write& write : target_.pending_writes()) EXPECT_EQ(write.transfer.check(), Errc::ok);
}

TEST_F(TargetTest, release_thenAssignElsewhere) {
  assign(0b111, FrameRun{kA, FrameNo{10}, 3});
  std::vector<FrameRun> released;
  homes_.release(0b101, [&](const FrameRun& run) { released.push_back(run); });
  EXPECT_EQ(released, (std::vector{FrameRun{kA, FrameNo{10}, 1}, FrameRun{kA, FrameNo{12}, 1}}));
  EXPECT_EQ(homes_.placed, 0b010U);
  EXPECT_EQ(assign(0b101, FrameRun{kB, FrameNo{50}, 2}), 0b101U);
  EXPECT_EQ(homes_.at[2], (Location{kB, FrameNo{51}}));
}

}  // namespace
}  // namespace comex

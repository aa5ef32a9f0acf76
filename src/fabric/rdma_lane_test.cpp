// An RDMA lane on a device that the test plays.
#include "fabric/rdma_lane.h"

#include <gtest/gtest.h>

#include <deque>

#include "fabric/fake_rdma_device_test.h"
#include "fabric/lane_set.h"

namespace comex {
namespace {

constexpr unsigned kSlabOrder = 9;
constexpr std::uint32_t kSlabFrames = 1U << kSlabOrder;

class RdmaLaneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto stream = device_.connect(
        domain_, {RdmaStream::kLaneBuffers + RdmaLane::kPieces, RdmaStream::kLaneBuffers, RdmaLane::kPlaces});
    ASSERT_NE(stream, nullptr);
    ASSERT_TRUE(local_.add(memory_));
    auto lane = RdmaLane::make(std::move(stream), keys_, local_, set_.broken_word(), Nanos(0));
    ASSERT_TRUE(lane);
    lane_ = *std::move(lane);
    set_.add(*lane_);
    keys_.open(0, wire::SlabKey{0x100000, 1});
    keys_.open(1, wire::SlabKey{0x900000, 2});
  }
  void TearDown() override { set_.sever(Errc::disconnected); }
  // One page each; all that the device takes at once.
  void fill(std::uint32_t pieces) {
    for (std::uint32_t i = 0; i < pieces; ++i) {
      fill_segments_.push_back(Segment{FrameNo{2 * i}, 1, memory_.data()});
      fill_.emplace_back(Direction::read, std::span(&fill_segments_.back(), 1));
      set_.submit(fill_.back(), 0);
    }
  }
  void finish_all() {
    for (const std::uint64_t id : device_.posted()) device_.finish(id);
    set_.progress();
  }

  FakeRdmaDevice device_;
  LaneSet set_{Millis(20'000)};
  RdmaKeys keys_{2, kSlabOrder};
  std::vector<std::byte> memory_ = std::vector<std::byte>(4 * kPageSize);
  std::shared_ptr<RdmaDomain> domain_ = device_.domain();
  RdmaLocal local_{domain_};
  std::unique_ptr<Lane> lane_;
  std::deque<Segment> fill_segments_;
  std::deque<Transfer> fill_;
};

// They were given back while the transfer waited for its turn.
TEST_F(RdmaLaneTest, submit_framesThatAreNoLongerOurs) {
  fill(RdmaLane::kPieces);
  const Segment segment{FrameNo{kSlabFrames + 3}, 1, memory_.data()};
  Transfer late(Direction::write, std::span(&segment, 1));
  set_.submit(late, 0);
  keys_.close(1);
  finish_all();
  ASSERT_TRUE(late.done());
  EXPECT_EQ(late.result(), Errc::denied);
  EXPECT_EQ(set_.broken(), Errc::ok) << "nobody else suffers";
  EXPECT_EQ(device_.posted().size(), RdmaLane::kPieces);
}

TEST_F(RdmaLaneTest, submit_framesOfWhichAPartIsNoLongerOurs) {
  fill(RdmaLane::kPieces - 1);
  const std::array<Segment, 2> segments{Segment{FrameNo{5}, 1, memory_.data()},
                                        Segment{FrameNo{kSlabFrames + 3}, 1, memory_.data() + kPageSize}};
  Transfer half(Direction::read, segments);
  set_.submit(half, 0);
  keys_.close(1);
  const auto posted = device_.posted();
  ASSERT_EQ(posted.size(), RdmaLane::kPieces) << "the first half of it, too";
  device_.finish(posted[posted.size() - 2]);
  set_.progress();
  EXPECT_FALSE(half.done()) << "the device is still at it";
  device_.finish(posted.back());
  set_.progress();
  set_.progress();  // takes note of what the first made possible
  ASSERT_TRUE(half.done());
  EXPECT_EQ(half.result(), Errc::denied);
  EXPECT_EQ(set_.broken(), Errc::ok);
}

}  // namespace
}  // namespace comex

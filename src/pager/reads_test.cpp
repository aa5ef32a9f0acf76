#include "pager/reads.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "pager/fake_program_test.h"

namespace comex {
namespace {

using testing_support::FakeFrames;

class ReadsTest : public ::testing::Test {
 protected:
  static constexpr std::uint16_t kNodes = 12;
  static constexpr std::uint32_t kFrames = 32;

  // Each frame has bytes of its own.
  ReadsTest() {
    for (std::uint16_t node = 0; node < kNodes; ++node) {
      EXPECT_EQ(frames_.take(kFrames)->count, kFrames);
      for (std::uint32_t i = 0; i < kFrames; ++i) *frames_.bytes_at({NodeId{node}, FrameNo{i}}) = byte_of(node, i);
    }
  }
  static std::byte byte_of(std::uint32_t node, std::uint32_t frame) {
    return static_cast<std::byte>(node * kFrames + frame);
  }
  [[nodiscard]] std::byte* at(std::uint32_t page) { return memory_.data() + page * kPageSize; }

  FakeFrames frames_{kNodes, kFrames};
  std::vector<std::byte> memory_ = std::vector<std::byte>(64 * kPageSize);
  Reads<16> reads_;
};

TEST_F(ReadsTest, wait_pagesOfSeveralNodesComeByOneTransferEach) {
  for (std::uint32_t i = 0; i < 16; ++i)
    ASSERT_TRUE(reads_.add({NodeId{static_cast<std::uint16_t>(i % 4)}, FrameNo{i / 4}}, at(i)));
  EXPECT_FALSE(reads_.add({NodeId{0}, FrameNo{9}}, at(16))) << "more than it is for";
  reads_.begin(frames_, Priority::urgent);
  EXPECT_EQ(reads_.wait(frames_), Errc::ok);
  EXPECT_TRUE(reads_.done());
  EXPECT_EQ(frames_.reads(), 4);
  for (std::uint32_t i = 0; i < 16; ++i) EXPECT_EQ(*at(i), byte_of(i % 4, i / 4)) << i;
}

TEST_F(ReadsTest, add_noMoreNodesThanItIsFor) {
  for (std::uint16_t node = 0; node < NodeSet::kMost; ++node) ASSERT_TRUE(reads_.add({NodeId{node}, {}}, at(node)));
  EXPECT_FALSE(reads_.add({NodeId{NodeSet::kMost}, {}}, at(10)));
  EXPECT_TRUE(reads_.add({NodeId{0}, FrameNo{1}}, at(11)));
  reads_.clear();
  EXPECT_TRUE(reads_.add({NodeId{NodeSet::kMost}, {}}, at(10)));
}

TEST_F(ReadsTest, done_whenAllAre) {
  frames_.hold_reads(true);
  ASSERT_TRUE(reads_.add({NodeId{1}, FrameNo{5}}, at(0)));
  ASSERT_TRUE(reads_.add({NodeId{2}, FrameNo{6}}, at(1)));
  reads_.begin(frames_, Priority::bulk);
  EXPECT_FALSE(reads_.done());
  frames_.hold_reads(false);
  EXPECT_EQ(reads_.wait(frames_), Errc::ok);
  EXPECT_EQ(*at(1), byte_of(2, 6));
}

}  // namespace
}  // namespace comex

#include "fabric/rdma_keys.h"

#include <gtest/gtest.h>

#include "fabric/rdma_endpoint.h"

namespace comex {
namespace {

constexpr unsigned kOrder = 9;
constexpr std::uint32_t kSlab = 1U << kOrder;

TEST(RdmaKeys, find_isTheSlabsAddressAndKey) {
  RdmaKeys keys(4, kOrder);
  keys.open(1, wire::SlabKey{0x100000, 77});
  const auto found = keys.find(FrameNo{kSlab + 3}, 5);
  EXPECT_EQ(found.address, 0x100000U + 3 * kPageSize);
  EXPECT_EQ(found.key, 77U);
  EXPECT_EQ(found.frames, 5U);
}

TEST(RdmaKeys, find_endsWithTheSlab) {
  RdmaKeys keys(4, kOrder);
  keys.open(0, wire::SlabKey{0x100000, 1});
  keys.open(1, wire::SlabKey{0x900000, 2});
  EXPECT_EQ(keys.find(FrameNo{kSlab - 2}, 5).frames, 2U);
  EXPECT_EQ(keys.find(FrameNo{kSlab}, 3).address, 0x900000U);
  EXPECT_TRUE(keys.holds(FrameNo{kSlab - 2}, 5));
}

TEST(RdmaKeys, find_nothingThatIsNotOpen) {
  RdmaKeys keys(2, kOrder);
  keys.open(0, wire::SlabKey{0x100000, 1});
  EXPECT_EQ(keys.find(FrameNo{kSlab}, 1).frames, 0U);
  EXPECT_FALSE(keys.holds(FrameNo{kSlab - 1}, 2));
  EXPECT_EQ(keys.find(FrameNo{2 * kSlab}, 1).frames, 0U) << "beyond the arena";
  EXPECT_EQ(keys.find(FrameNo{UINT32_MAX}, 1).frames, 0U);
  keys.close(0);
  EXPECT_EQ(keys.find(FrameNo{0}, 1).frames, 0U);
}

// All tries together nominally take less than the link waits; and a lost packet is sent again within a quarter of a
// second.
TEST(RdmaAckTimeout, fitsIntoTheLinksTimeout) {
  for (const int timeout : {100, 500, 2'000, 10'000}) {
    const double each_ms = 0.004096 * static_cast<double>(1ULL << rdma_ack_timeout(Millis(timeout)));
    EXPECT_LE(each_ms * 8, timeout) << timeout;
    EXPECT_LE(each_ms, 270) << timeout;
    EXPECT_GE(each_ms, 1) << timeout;
  }
  EXPECT_EQ(rdma_ack_timeout(Millis(1)), 8) << "the least there is: less would take a busy node for a dead one";
}

}  // namespace
}  // namespace comex

#include "pool/slab_ledger.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

Extent extent(std::uint32_t first, std::uint32_t count) {
  return Extent{FrameNo{first}, count};
}

TEST(SlabLedger, toReach_countsWhatIsHeldPerSlab) {
  SlabLedger ledger;
  ledger.begin(NodeInfo{NodeId{1}, 2048, 9, Millis(0)});
  ledger.granted(extent(0, 128));
  ledger.granted(extent(512, 128));
  ledger.granted(extent(640, 128));
  ledger.granted(extent(1024, 128));
  ledger.returned(extent(600, 8));
  ledger.returned(extent(1024, 128));
  EXPECT_EQ(ledger.to_reach(), (std::vector{extent(0, 128), extent(512, 248)}));
}

TEST(SlabLedger, begin_forgets) {
  SlabLedger ledger;
  const NodeInfo node{NodeId{1}, 2048, 9, Millis(0)};
  ledger.begin(node);
  ledger.granted(extent(0, 128));
  ledger.begin(node);
  EXPECT_TRUE(ledger.to_reach().empty());
}

TEST(SlabLedger, framesBeyondTheArena_doNoHarm) {
  SlabLedger ledger;
  ledger.granted(extent(1 << 20, 128));
  ledger.begin(NodeInfo{NodeId{1}, 2048, 9, Millis(0)});
  ledger.granted(extent(1 << 20, 128));
  EXPECT_TRUE(ledger.to_reach().empty());
}

}  // namespace
}  // namespace comex

#include "bench/chaos/storm.h"

#include <gtest/gtest.h>

#include <set>

namespace comex::bench {
namespace {

bool same(const Fault& a, const Fault& b) {
  return a.what == b.what && a.node == b.node && a.program == b.program && a.lasts == b.lasts && a.after == b.after;
}

TEST(Storm, theSameSeed_theSameStorm) {
  const auto a = draw_storm(7, 50, 4, 2, Millis(1000));
  const auto b = draw_storm(7, 50, 4, 2, Millis(1000));
  const auto c = draw_storm(8, 50, 4, 2, Millis(1000));
  ASSERT_EQ(a.size(), 50U);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), same));
  EXPECT_FALSE(std::equal(a.begin(), a.end(), c.begin(), same));
}

TEST(Storm, hasEverything_withinBounds) {
  std::set<Mishap> kinds;
  std::set<unsigned> nodes;
  for (const Fault& fault : draw_storm(3, 60, 4, 2, Millis(1000))) {
    kinds.insert(fault.what);
    nodes.insert(fault.node);
    EXPECT_GE(fault.node, 1U);
    EXPECT_LE(fault.node, 4U);
    EXPECT_LT(fault.program, 2U);
    EXPECT_LE(fault.lasts, Millis(1000));
  }
  EXPECT_EQ(kinds.size(), kMishaps.size());
  EXPECT_EQ(nodes.size(), 4U);
  std::set<Mishap> few;
  for (const Fault& fault : draw_storm(3, kMishaps.size(), 4, 2, Millis(1000))) few.insert(fault.what);
  EXPECT_EQ(few.size(), kMishaps.size()) << "each kind before any comes again";
}

}  // namespace
}  // namespace comex::bench

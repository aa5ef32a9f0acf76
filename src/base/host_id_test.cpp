#include "base/host_id.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace comex {
namespace {

TEST(HostIdTest, nidOf_isFixedForever) {
  EXPECT_EQ(nid_of(""), 0xf011);
  EXPECT_EQ(nid_of("0123456789abcdef0123456789abcdef"), 0xb360);
}

TEST(HostIdTest, nidOf_isNeverZeroAndSpreads) {
  std::set<std::uint16_t> seen;
  for (int i = 0; i < 100'000; ++i) seen.insert(nid_of("host-" + std::to_string(i)));
  EXPECT_EQ(seen.count(0), 0U);
  // 100,000 balls into 65,536 urns leave about 22 % of them empty.
  EXPECT_GT(seen.size(), 48'000U);
}

TEST(HostIdTest, defaultHostNid_staysTheSame) {
  EXPECT_NE(default_host_nid(), 0);
  EXPECT_EQ(default_host_nid(), default_host_nid());
}

}  // namespace
}  // namespace comex

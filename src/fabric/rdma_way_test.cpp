// Which of the indices of an address is used. The rest needs a device: tests/rdma_test.cpp.
#include "fabric/rdma_way.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

TEST(RdmaWay, chooseGid_theSecondVersionOfRoce) {
  EXPECT_EQ(choose_gid({{2, "IB/RoCE v1\n"}, {3, "RoCE v2\n"}}), 3);
  EXPECT_EQ(choose_gid({{4, "RoCE v2\n"}, {5, "IB/RoCE v1\n"}}), 4);
}

TEST(RdmaWay, chooseGid_whatThereIs) {
  EXPECT_EQ(choose_gid({{1, "IB/RoCE v1\n"}}), 1);
  EXPECT_EQ(choose_gid({{1, ""}}), 1);
}

}  // namespace
}  // namespace comex

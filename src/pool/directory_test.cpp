#include "pool/directory.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

TEST(Directory, enlist_givesEachSessionAnIdOfItsOwn) {
  Directory directory(4);
  EXPECT_EQ(directory.enlist(0), NodeId{0});
  EXPECT_EQ(directory.enlist(1), NodeId{1});
  EXPECT_EQ(directory.enlist(0), NodeId{2});
  EXPECT_EQ(directory.member_of(NodeId{0}), 0U);
  EXPECT_EQ(directory.member_of(NodeId{1}), 1U);
  EXPECT_EQ(directory.member_of(NodeId{2}), 0U);
}

TEST(Directory, memberOf_unknown) {
  const Directory directory(4);
  EXPECT_FALSE(directory.member_of(NodeId{0}));
  EXPECT_FALSE(directory.member_of(kNowhere));
}

TEST(Directory, enlist_endsWhenFull) {
  Directory directory(1);
  EXPECT_TRUE(directory.enlist(0));
  EXPECT_FALSE(directory.enlist(0));
}

}  // namespace
}  // namespace comex

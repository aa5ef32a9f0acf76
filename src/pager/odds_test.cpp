#include "pager/odds.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

TEST(Odds, share_ofWhatWasTried) {
  Odds odds;
  EXPECT_EQ(odds.share(), 0U);
  for (int i = 0; i < 6400; ++i) {
    odds.tried(1);
    if (i % 4 == 0) odds.followed();
  }
  EXPECT_NEAR(odds.share(), Odds::kOne / 4, Odds::kOne / 32);
}

TEST(Odds, share_isNeverMoreThanAll) {
  Odds odds;
  for (int i = 0; i < 5'000'000; ++i) odds.followed();
  for (int i = 0; i < 20; ++i) {
    odds.tried(64);
    EXPECT_LE(odds.share(), Odds::kOne);
    for (int j = 0; j < 100; ++j) odds.followed();
  }
  EXPECT_GT(odds.share(), Odds::kOne * 9 / 10);
}

TEST(Odds, beginAnew_forgetsWhatIsNotYetPartOfTheShare) {
  Odds odds;
  for (int i = 0; i < 60; ++i) odds.followed();
  odds.tried(60);
  odds.begin_anew();
  odds.tried(64);
  EXPECT_EQ(odds.share(), 0U);
}

}  // namespace
}  // namespace comex

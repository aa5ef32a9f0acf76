#include "pager/lifts.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

constexpr BlockNo kBlock{7};
constexpr Slots kTwelve = 0xfff;

PageNo page(std::uint32_t slot) {
  return kBlock.first() + slot;
}

TEST(Lifts, one_occasion_in_a_few_is_only_watched) {
  Lifts lifts;
  int looks = 0;
  for (int i = 0; i < 80; ++i) looks += lifts.look();
  EXPECT_EQ(looks, 10);
}

TEST(Lifts, the_share_of_watched_pages_that_are_written_to_is_learned) {
  Lifts lifts;
  for (int i = 0; i < 60; ++i) {
    lifts.watch(kBlock, kTwelve, 12);
    for (std::uint32_t slot = 0; slot < 9; ++slot) lifts.wrote(page(slot));
  }
  EXPECT_NEAR(lifts.share(), Odds::kOne * 3 / 4, Odds::kOne / 8);
  for (int i = 0; i < 200; ++i) lifts.watch(kBlock, kTwelve, 12);
  EXPECT_LT(lifts.share(), Odds::kOne / 16) << "and so is when they are no more";
}

TEST(Lifts, a_page_counts_once_and_only_while_it_is_watched) {
  Lifts lifts;
  for (int i = 0; i < 60; ++i) {
    lifts.watch(kBlock, 1, 12);
    for (int again = 0; again < 12; ++again) lifts.wrote(page(0));
    lifts.wrote(page(1));
    lifts.wrote(PageNo{page(0).value + kBlockPages});
  }
  EXPECT_LT(lifts.share(), Odds::kOne / 8);
}

}  // namespace
}  // namespace comex

#include "pager/prefetch/attention.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

// How many of so many faults, so far apart, are looked at, if every `finds`th of those brings something; 0: none.
std::uint32_t looked_at(Attention& attention, std::uint32_t faults, std::uint32_t finds, std::uint64_t apart = 1000) {
  std::uint32_t looked = 0;
  for (std::uint32_t i = 0; i < faults; ++i) {
    if (attention.is_away(PageNo{i * apart})) continue;
    ++looked;
    attention.found(finds > 0 && looked % finds == 0);
  }
  return looked;
}

TEST(Attention, isAQuarter_whereThereIsNothing) {
  Attention attention;
  constexpr std::uint32_t kTurn = Attention::kPatience + Attention::kAway;
  EXPECT_EQ(looked_at(attention, 10 * kTurn, 0), 10 * Attention::kPatience);
}

TEST(Attention, isWhole_whileThereIsSomethingNowAndThen) {
  Attention attention;
  EXPECT_EQ(looked_at(attention, 100'000, Attention::kPatience), 100'000U);
  EXPECT_LT(looked_at(attention, 100'000, Attention::kPatience + 1), 50'000U);
}

TEST(Attention, isBackAtOnce_whenItIsTime) {
  Attention attention;
  looked_at(attention, Attention::kPatience, 0);
  EXPECT_EQ(looked_at(attention, Attention::kAway, 1), 0U);
  EXPECT_EQ(looked_at(attention, 1000, 1), 1000U);
}

TEST(Attention, isBackAtOnce_whenFaultsAreNearEachOther) {
  Attention attention;
  looked_at(attention, Attention::kPatience, 0);
  ASSERT_TRUE(attention.is_away(PageNo{1'000'000}));
  ASSERT_TRUE(attention.is_away(PageNo{1'000'001}));
  EXPECT_FALSE(attention.is_away(PageNo{1'000'000}));
}

}  // namespace
}  // namespace comex

#include "pager/prefetch/strays.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace comex {
namespace {

constexpr PageNo kBase{0x7'f000'0000};
constexpr std::uint64_t kFarAway = 10'000'000;

// Where in the page does not count: it differs.
class StraysTest : public ::testing::Test {
 protected:
  std::optional<Line> add(std::uint64_t page) {
    return strays_.add(kBase + page, static_cast<std::uint32_t>(97 * page * page % kPageSize));
  }
  std::optional<Line> add_byte(std::uint64_t byte) {
    return strays_.add(kBase + byte / kPageSize, static_cast<std::uint32_t>(byte % kPageSize));
  }

  Strays strays_;
};

TEST_F(StraysTest, add_threeAtEqualDistances) {
  EXPECT_FALSE(add(1000));
  EXPECT_FALSE(add(1300));
  const auto found = add(1600);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->first, kBase + 1300);
  EXPECT_EQ(found->step, Step{300});
  EXPECT_FALSE(add(1901));
}

TEST_F(StraysTest, add_backwardsToo) {
  add(5000);
  add(4300);
  const auto found = add(3600);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, Step{-700});
}

TEST_F(StraysTest, add_inBytes) {
  add_byte(100);
  add_byte(300'100);
  const auto found = add_byte(600'100);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, Step::of(300'000));
  EXPECT_EQ(found->at(1), kBase + 600'100 / kPageSize);
  EXPECT_EQ(found->at(2), kBase + 900'100 / kPageSize);
}

TEST_F(StraysTest, add_asManyInTurnAsThereIsRoomFor) {
  for (std::uint64_t streams = 1; streams <= Strays::kMost / 2; ++streams) {
    strays_ = {};
    for (std::uint64_t i = 0; i < 3; ++i) {
      for (std::uint64_t stream = 0; stream < streams; ++stream) {
        const auto found = add(stream * stream * kFarAway + i * (300 + stream));
        ASSERT_EQ(found.has_value(), i == 2) << stream << " of " << streams;
        const std::int64_t step = found ? found->step.pages : 0;
        EXPECT_EQ(step, i == 2 ? static_cast<std::int64_t>(300 + stream) : 0);
      }
    }
  }
}

TEST_F(StraysTest, add_withOneMoreOrLessBetween) {
  for (const bool more : {false, true}) {
    strays_ = {};
    add(1000);
    add(5 * kFarAway);
    if (more) add(7 * kFarAway + 11);
    add(1300);
    if (!more) add(11 * kFarAway + 5);
    add(17 * kFarAway + 8);
    const auto found = add(1600);
    ASSERT_TRUE(found) << more;
    EXPECT_EQ(found->step, Step{300});
  }
}

// A[i * 300] + B[i * 300] + C[i * 300], which lie one after the other.
TEST_F(StraysTest, add_arraysAtEqualDistancesAreFoundInTheEnd) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    for (std::uint64_t array = 0; array < 3; ++array) {
      const auto found = add(array * kFarAway + i * 300);
      if (i == 2) {
        ASSERT_TRUE(found);
        EXPECT_EQ(found->step, Step{300}) << array;
      }
    }
  }
}

TEST_F(StraysTest, add_thePageAgainIsNoStride) {
  for (const std::uint64_t byte : {100, 100, 100, 200, 300, 400, 2'500, 4'600, 6'700}) EXPECT_FALSE(add_byte(byte));
}

TEST_F(StraysTest, add_afterAPauseItBeginsAnew) {
  for (const bool longer : {false, true}) {
    strays_ = {};
    for (const std::uint64_t page : {1000, 1300}) {
      add(page);
      for (std::uint32_t i = 0; i < Strays::kPause + longer; ++i) strays_.pass();
    }
    EXPECT_EQ(add(1600).has_value(), !longer);
  }
}

TEST_F(StraysTest, add_tooFarToSayIsNone) {
  constexpr std::uint64_t kFar = std::uint64_t{1} << 32;
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_FALSE(add(i * kFar));
}

TEST_F(StraysTest, add_atRandomNextToNothing) {
  std::mt19937_64 random(3);
  int found = 0;
  for (int i = 0; i < 1'000'000; ++i) found += add(random() % 1'000'000).has_value();
  EXPECT_LT(found, 50);
}

}  // namespace
}  // namespace comex

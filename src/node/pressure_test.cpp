#include "node/pressure.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace comex {
namespace {

constexpr std::uint64_t kMost = 1000 * kMiB;

class PressureTest : public testing::Test {
 protected:
  std::uint64_t limit(std::uint64_t available, std::uint64_t present, Stalls stalls = {}) {
    return pressure_.limit(HostMemory{.total = 4000 * kMiB, .available = available * kMiB}, stalls, present * kMiB,
                           kMost, now_) /
           kMiB;
  }
  void pass(Millis span) { now_ += span; }

  const PressureConfig config_{.reserve = 400 * kMiB};
  Pressure pressure_{config_};
  Clock::time_point now_ = Clock::now();
};

TEST(PressureText, parse) {
  EXPECT_EQ(
      parse_pressure("some avg10=12.50 avg60=1.00 avg300=0.10 total=5\nfull avg10=0.00 avg60=0 avg300=0 total=0\n"),
      12.5);
  EXPECT_EQ(parse_pressure("some avg10=0.00 avg60"), 0.0);
  EXPECT_FALSE(parse_pressure(""));
  EXPECT_FALSE(parse_pressure("some avg10=x"));
}

TEST(PressureText, reclaims) {
  EXPECT_EQ(parse_reclaims("pgalloc 3\nallocstall_dma 0\nallocstall_normal 5\nallocstall_movable 20\npgskip 9\n"), 25U);
  EXPECT_EQ(parse_reclaims(""), 0U);
  EXPECT_EQ(parse_reclaims("allocstall_"), 0U);
}

TEST_F(PressureTest, enough_memory_is_no_pressure) {
  EXPECT_EQ(limit(401, 1000), 1000U);
  EXPECT_EQ(limit(4000, 1000, {9.9, 1}), 1000U);
  EXPECT_EQ(limit(4000, 1000, {9.9, 2}), 1000U);
}

TEST_F(PressureTest, what_is_missing_is_given_back_and_a_little_more) {
  EXPECT_EQ(limit(300, 1000), 850U);
  EXPECT_EQ(limit(250, 1000), 850U) << "they are still moving";
  EXPECT_EQ(limit(380, 850), 780U) << "that was not enough";
  pass(config_.patience);
  EXPECT_EQ(limit(0, 850), 400U) << "nor did anybody move";
  EXPECT_EQ(limit(0, 100), 0U);
}

TEST_F(PressureTest, programs_that_wait_for_memory_are_pressure_whatever_is_available) {
  ASSERT_EQ(limit(3000, 800, {40, 7}), 1000U) << "no knowing what happened before the first look";
  EXPECT_EQ(limit(3000, 800, {40, 8}), 750U);
}

// A control group at its limit: the host has memory, and giving more of it back would change nothing.
TEST_F(PressureTest, programs_that_wait_within_their_own_limits_are_none) {
  ASSERT_EQ(limit(3000, 800, {0, 7}), 1000U);
  EXPECT_EQ(limit(3000, 800, {90, 7}), 1000U);
  EXPECT_EQ(limit(3000, 800, {90, 7}), 1000U);
}

TEST_F(PressureTest, lends_again_when_it_has_been_calm) {
  ASSERT_EQ(limit(300, 1000), 850U);
  EXPECT_EQ(limit(450, 850), 850U);
  pass(config_.calm);
  EXPECT_EQ(limit(500, 850), 850U) << "not so much as to be short of memory again";
  EXPECT_EQ(limit(700, 850), 950U);
  EXPECT_EQ(limit(1000, 950), 1000U);
}

}  // namespace
}  // namespace comex

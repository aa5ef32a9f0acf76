#include "pager/prefetch/trend.h"

#include <gtest/gtest.h>

#include <vector>

namespace comex {
namespace {

Deltas deltas_of(const std::vector<std::int32_t>& values) {
  Deltas deltas;
  for (const std::int32_t value : values) deltas.push(value);
  return deltas;
}

// Figure 5 of the paper: sixteen addresses, a history of eight deltas, windows of four and eight.
TEST(Trend, find_workedExampleOfThePaper) {
  const std::vector<std::int32_t> addresses = {0x48, 0x45, 0x42, 0x3f, 0x3c, 0x02, 0x04, 0x06,
                                               0x08, 0x0a, 0x0c, 0x10, 0x39, 0x12, 0x14, 0x16};
  std::vector<std::int32_t> trends;
  Deltas deltas;
  std::int32_t before = 0;
  for (const std::int32_t address : addresses) {
    deltas.push(address - before);
    before = address;
    trends.push_back(find_trend(deltas, 8, 2));
  }
  EXPECT_EQ(trends[3], -3);
  EXPECT_EQ(trends[7], 0) << "the trend is shifting, and there is no majority in either window";
  EXPECT_EQ(trends[8], +2);
  EXPECT_EQ(trends[15], +2) << "in the larger window, in spite of two jumps";
}

TEST(Trend, majority_needsMoreThanHalf) {
  struct Case {
    std::vector<std::int32_t> deltas;
    std::int32_t majority;
  };
  for (const Case& each : {Case{{1, 1, 1, 1}, 1}, Case{{1, 2, 1, 1}, 1}, Case{{1, 2, 2, 1}, 0}, Case{{1, 2, 3, 4}, 0},
                           Case{{-7, -7, 5}, -7}, Case{{3}, 3}, Case{{}, 0}, Case{{0, 0, 0}, 0}}) {
    const auto count = static_cast<std::uint32_t>(each.deltas.size());
    EXPECT_EQ(majority(deltas_of(each.deltas), count), each.majority) << ::testing::PrintToString(each.deltas);
  }
}

TEST(Trend, find_aNewStreamNeedsTwo) {
  EXPECT_EQ(find_trend(deltas_of({}), 32, 8), 0);
  EXPECT_EQ(find_trend(deltas_of({10}), 32, 8), 0);
  EXPECT_EQ(find_trend(deltas_of({10, 10}), 32, 8), 10);
  EXPECT_EQ(find_trend(deltas_of({10, 9}), 32, 8), 0);
}

TEST(Trend, find_theSmallWindowIsNewer) {
  std::vector<std::int32_t> values(32, 1);
  values.insert(values.end(), {7, 7, 7});
  EXPECT_EQ(find_trend(deltas_of(values), 32, 8), 7);
  values.resize(34);
  EXPECT_EQ(find_trend(deltas_of(values), 32, 8), 1) << "two of four are no majority yet, and of eight they are few";
}

TEST(Deltas, push_keepsTheNewest) {
  Deltas deltas;
  for (std::int32_t i = 0; i < 1000; ++i) deltas.push(i);
  EXPECT_EQ(deltas.size(), Deltas::kMost);
  for (std::uint32_t i = 0; i < Deltas::kMost; ++i) EXPECT_EQ(deltas.back(i), 999 - static_cast<std::int32_t>(i));
}

}  // namespace
}  // namespace comex

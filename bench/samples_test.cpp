#include "bench/samples.h"

#include <gtest/gtest.h>

namespace comex::bench {
namespace {

TEST(Samples, summary_percentilesOfOneToThousand) {
  Samples samples(1000);
  for (std::uint64_t us = 1000; us >= 1; --us) samples.record(us * 1000);
  const Summary summary = samples.summary();
  EXPECT_DOUBLE_EQ(summary.p50, 501);
  EXPECT_DOUBLE_EQ(summary.p99, 991);
  EXPECT_DOUBLE_EQ(summary.mean, 500.5);
  EXPECT_EQ(summary.count, 1000u);
  EXPECT_TRUE(samples.full());
}

TEST(Samples, summary_noneIsZero) {
  Samples samples(10);
  EXPECT_EQ(samples.summary().count, 0u);
  EXPECT_EQ(samples.summary().p99, 0);
}

TEST(Samples, record_longOneIsCapped) {
  Samples samples(1);
  samples.record(60'000'000'000);
  EXPECT_DOUBLE_EQ(samples.summary().p50, 4e6);
}

TEST(Samples, clear_startsAfresh) {
  Samples samples(4);
  samples.record(5000);
  samples.clear();
  samples.record(7000);
  EXPECT_DOUBLE_EQ(samples.summary().p50, 7);
  EXPECT_EQ(samples.count(), 1u);
}

TEST(Median, oddEvenNone) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median({}), 0);
}

}  // namespace
}  // namespace comex::bench

#include "bench/prefetch/run_counts.h"

#include <gtest/gtest.h>

namespace comex::bench {
namespace {

TEST(RunCounts, parse_takesWhatCounts) {
  const auto counts = parse_run_counts(R"({"faults":{"from_staging":1,"from_read_buffer":2,"from_node":30},
    "pages_prefetched":10,"pages_prefetched_used":8,"seconds_in_faults":0.5,"prefetch_lead_us":{"p50":4,"p95":16}})");
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->faults(), 33u);
  EXPECT_EQ(counts->for_nothing(), 2u);
  EXPECT_DOUBLE_EQ(*counts->accuracy(), 0.8);
  EXPECT_DOUBLE_EQ(*counts->lead_p95, 16);
  RunCounts without;
  EXPECT_FALSE(counts->coverage(without));
  without.from_node = 60;
  EXPECT_DOUBLE_EQ(*counts->coverage(without), 0.5);
}

TEST(RunCounts, parse_nothingPrefetchedHasNoAccuracy) {
  const auto counts = parse_run_counts(R"({"faults":{}})");
  ASSERT_TRUE(counts);
  EXPECT_FALSE(counts->accuracy());
  EXPECT_FALSE(counts->lead_p50);
}

TEST(RunCounts, parse_refusesOtherText) {
  EXPECT_FALSE(parse_run_counts(""));
  EXPECT_FALSE(parse_run_counts("[]"));
  EXPECT_FALSE(parse_run_counts(R"({"faults":3})"));
}

}  // namespace
}  // namespace comex::bench

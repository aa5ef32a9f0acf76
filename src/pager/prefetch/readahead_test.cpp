#include "pager/prefetch/readahead.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

using From = Miss::From;

// In order, on one history: what Linux would read around each.
TEST(ReadAhead, plan_asLinuxDoes) {
  struct Step {
    std::uint64_t page;
    From from;
    std::uint32_t before;
    std::uint32_t after;
    const char* why;
  };
  const Step steps[] = {
      {1000, From::node, 3, 4, "the first: four hits are assumed, eight pages around it"},
      {9000, From::node, 1, 2, "no hit, and somewhere else: half of what it was"},
      {9001, From::buffer, 0, 0, "one hit"},
      {9002, From::buffer, 0, 0, "two"},
      {9003, From::node, 0, 3, "next to the last: ahead; two hits and two are four"},
      {9004, From::buffer, 0, 0, "one"},
      {9005, From::buffer, 0, 0, "two"},
      {9006, From::buffer, 0, 0, "three"},
      {9007, From::node, 0, 7, "five, and so eight"},
      {9006, From::node, 3, 0, "before the last: backwards; no hits, so half"},
      {5000, From::node, 0, 1, "half again"},
      {6000, From::node, 0, 0, "nothing"},
      {7000, From::node, 0, 0, "nothing"},
      {7001, From::node, 0, 1, "next to the last: must not be stuck for ever"},
      {8000, From::zeros, 0, 0, "first touches are not read"},
      {7002, From::staging, 0, 0, "nothing to read"},
      {7003, From::node, 0, 1, "next to that"},
  };
  const ReadAhead prefetcher;
  History history;
  for (const Step& step : steps) {
    const Plan plan = prefetcher.plan(history, Miss{PageNo{step.page}, step.from});
    EXPECT_EQ(plan.before, step.before) << step.page << ": " << step.why;
    EXPECT_EQ(plan.after, step.after) << step.page << ": " << step.why;
    EXPECT_TRUE(plan.before + plan.after == 0 || !plan.mapped) << step.page;
  }
}

TEST(ReadAhead, plan_staysWithinATable) {
  const ReadAhead prefetcher;
  for (const auto& [page, before, after] : {std::tuple{512U, 0U, 4U}, {511U, 3U, 0U}, {513U, 1U, 4U}}) {
    History history;
    const Plan plan = prefetcher.plan(history, Miss{PageNo{page}});
    EXPECT_EQ(plan.before, before) << page;
    EXPECT_EQ(plan.after, after) << page;
  }
}

}  // namespace
}  // namespace comex

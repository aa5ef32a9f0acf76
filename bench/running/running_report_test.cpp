#include "bench/running/running_report.h"

#include <gtest/gtest.h>

#include "bench/running/redis_load.h"
#include "bench/running/workload.h"

namespace comex::bench {
namespace {

RunningSeries series(std::string_view name, double native, double dormant, double armed) {
  return {std::string(name), "s", {{Mode::native, {native}}, {Mode::dormant, {dormant}}, {Mode::armed, {armed}}}};
}

const Goal& goal(const std::vector<Goal>& goals, std::string_view name) {
  for (const Goal& each : goals) {
    if (each.name.find(name) != std::string::npos) return each;
  }
  ADD_FAILURE() << "no goal for " << name;
  return goals.front();
}

TEST(RunningReport, ratios_are_taken_within_a_round) {
  RunningSeries slowing{"it", "s", {{Mode::native, {1, 2, 4}}, {Mode::dormant, {1, 2, 8}}}};
  EXPECT_DOUBLE_EQ(*slowing.ratio(Mode::dormant), 1);
  EXPECT_DOUBLE_EQ(*slowing.difference(Mode::dormant), 0);
  EXPECT_FALSE(slowing.ratio(Mode::armed));
}

TEST(RunningReport, judges_each_goal_its_own_way) {
  RunningFigures figures;
  figures.series = {series(kStartEach, 1, 1.5, 9), series(kMake, 10, 10.6, 20), series(kRedisGet, 100, 50, 96)};
  const auto goals = judge(figures);
  EXPECT_TRUE(*goal(goals, kStartEach).met);
  EXPECT_FALSE(*goal(goals, kMake).met);
  EXPECT_TRUE(*goal(goals, kRedisGet).met);
  EXPECT_FALSE(goal(goals, kPython).met.has_value());
}

TEST(RunningReport, shows_what_was_measured_and_what_was_not) {
  RunningFigures figures;
  figures.rounds = 3;
  figures.series = {series(kMake, 10, 10.2, 10.4), {std::string(kPython), "s", {}}};
  figures.failed = {{std::string(kPython), "it ended with 1"}};
  figures.skipped = {{"redis", "it is not installed"}};
  const std::string text = to_text(figures, judge(figures), false);
  EXPECT_NE(text.find("1.020 x"), std::string::npos) << text;
  EXPECT_NE(text.find("it ended with 1"), std::string::npos) << text;
  EXPECT_NE(text.find("it is not installed"), std::string::npos) << text;
  EXPECT_EQ(to_json(figures, judge(figures))["figures"].size(), 3U);
}

TEST(RunningReport, reads_the_rate_of_redis_benchmark) {
  EXPECT_DOUBLE_EQ(*parse_redis_rate("\"test\",\"rps\",\"avg\"\n\"SET\",\"90090.09\",\"0.3\"\n"), 90090.09);
  EXPECT_FALSE(parse_redis_rate(""));
  EXPECT_FALSE(parse_redis_rate("\"test\",\"rps\"\n"));
  EXPECT_FALSE(parse_redis_rate("\"test\",\"rps\"\n\"SET\",\"none\"\n"));
}

}  // namespace
}  // namespace comex::bench

#include "bench/keep/keep_report.h"

#include <gtest/gtest.h>

namespace comex::bench {
namespace {

KeepFigures some_keeping() {
  KeepFigures figures;
  figures.rounds = 2;
  figures.nodes = 5;
  for (const double factor : {1.0, 2.0}) {  // a machine that is busy in the second round
    figures.add(kFill, Keeping::one_copy, 4 * factor);
    figures.add(kFill, Keeping::two_copies, 6 * factor);
    figures.add(kFill, Keeping::coded, 5 * factor);
    figures.add(kPauseKilled, Keeping::two_copies, 900 * factor);
    figures.add(kPauseKilled, Keeping::coded, 1'100 * factor);
  }
  return figures;
}

const Goal& goal(const std::vector<Goal>& goals, const std::string& name) {
  static const Goal none;
  for (const Goal& each : goals) {
    if (each.name == name) return each;
  }
  return none;
}

TEST(KeepReport, ratiosAreOfRoundsAndWaitsAreTheLongest) {
  const auto goals = judge(some_keeping());
  EXPECT_EQ(goal(goals, "--replicas 2: to fill").met, true);
  EXPECT_DOUBLE_EQ(goal(goals, "--replicas 2: to fill").value, 1.5);
  EXPECT_EQ(goal(goals, "--replicas 2: longest wait: node killed").met, true);
  EXPECT_EQ(goal(goals, "--code 4+1: longest wait: node killed").met, false);
  EXPECT_EQ(goal(goals, "--code 4+1: longest wait: node stopped").met, std::nullopt);
}

TEST(KeepReport, aRoundThatFailedMakesNoRatio) {
  KeepFigures figures = some_keeping();
  figures.add(kFill, Keeping::one_copy, 4);
  EXPECT_EQ(figures.ratio(kFill, Keeping::coded), std::nullopt);
}

TEST(KeepReport, theTableHasWhatWasMeasured) {
  const KeepFigures figures = some_keeping();
  const std::string text = to_text(figures, judge(figures), false);
  EXPECT_NE(text.find("1.50 x"), std::string::npos) << text;
  const auto json = to_json(figures, judge(figures));
  EXPECT_EQ(json["figures"].size(), 5U);
  EXPECT_EQ(json["figures"][0]["figure"], 6);
}

}  // namespace
}  // namespace comex::bench

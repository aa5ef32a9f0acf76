#include "bench/report.h"

#include <gtest/gtest.h>

namespace comex::bench {
namespace {

constexpr Latency kReadPage{Direction::read, 1};

Summary p50(double us) {
  return Summary{us, us * 2, us, 100};
}

// Three rounds on a machine that gets slower and slower, as shared ones do; the ratios stay.
Figures drifting_figures() {
  Figures figures;
  figures.systems = {std::string(kMemcpy), std::string(kComexShm), std::string(kBareTcp), std::string(kComexTcp)};
  figures.nodes = "two memory nodes";
  figures.rounds = 3;
  for (const double slowness : {1.0, 2.0, 5.0}) {
    figures.add(kMemcpy, kReadPage, p50(0.4 * slowness));
    figures.add(kComexShm, kReadPage, p50(0.5 * slowness));
    figures.add(kBareTcp, kReadPage, p50(10 * slowness));
    figures.add(kComexTcp, kReadPage, p50(12 * slowness));
    figures.add(kRedis, kReadPage, p50(18 * slowness));
    for (const Direction direction : {Direction::read, Direction::write}) {
      for (unsigned threads = 1; threads <= kMostThreads; ++threads) {
        figures.add(kBareTcp, direction, threads, 4e9 / slowness);
        figures.add(kComexTcp, direction, threads, (threads == 3 ? 3e9 : 3.6e9) / slowness);
      }
    }
  }
  return figures;
}

const Goal& goal_like(const std::vector<Goal>& goals, std::string_view name) {
  for (const Goal& goal : goals) {
    if (goal.name.find(name) != std::string::npos) return goal;
  }
  static const Goal none;
  ADD_FAILURE() << "no goal called " << name;
  return none;
}

TEST(Figures, ratio_isTakenWithinRounds) {
  const Figures figures = drifting_figures();
  EXPECT_NEAR(*figures.ratio(kComexTcp, kBareTcp, kReadPage), 1.2, 1e-9);
  EXPECT_NEAR(*figures.ratio(kComexTcp, kBareTcp, Direction::read, 3), 0.75, 1e-9);
  EXPECT_FALSE(figures.ratio(kComexTcp, kNbdkit, kReadPage));
  EXPECT_FALSE(figures.ratio(kComexTcp, kBareTcp, Latency{Direction::read, 16}));
}

TEST(Goals, judge_metMissedUnknown) {
  Figures figures = drifting_figures();
  const std::vector<Goal> goals = judge(figures);
  EXPECT_EQ(goal_like(goals, "shm").met, true);
  EXPECT_EQ(goal_like(goals, "TCP: reading a page").met, true);
  EXPECT_EQ(goal_like(goals, "redis").met, false);
  EXPECT_EQ(goal_like(goals, "nbdkit").met, std::nullopt);
  EXPECT_EQ(goal_like(goals, "taking frames").met, std::nullopt);

  figures.allocation = Allocation{2e6, 9e7};
  EXPECT_EQ(goal_like(judge(figures), "taking frames").met, true);
}

TEST(Goals, judge_batchesByTheWorstThreadCount) {
  const Goal goal = goal_like(judge(drifting_figures()), "reading 64-page");
  EXPECT_EQ(goal.met, false);
  EXPECT_NEAR(goal.value, 0.75, 1e-9);
  EXPECT_EQ(goal.figure, "90, 90, 75, 90 % with 1 to 4 threads");
}

TEST(Goals, judge_rdmaWhereThereIsSome) {
  Figures figures = drifting_figures();
  const std::size_t without = judge(figures).size();
  for (const double slowness : {1.0, 2.0, 5.0}) figures.add(kComexRdma, kReadPage, p50(5.5 * slowness));
  EXPECT_EQ(judge(figures).size(), without + 1);
  EXPECT_EQ(goal_like(judge(figures), "RDMA").met, std::nullopt);
  for (const double slowness : {1.0, 2.0, 5.0}) figures.add(kPerftest, kReadPage, p50(5 * slowness));
  EXPECT_EQ(goal_like(judge(figures), "RDMA").met, true);
  EXPECT_EQ(goal_like(judge(figures), "RDMA").figure, "1.10 x");
}

TEST(Report, toText_hasADashForWhatWasNotMeasured) {
  Figures figures = drifting_figures();
  figures.systems = {std::string(kPerftest), std::string(kComexRdma)};
  for (const Direction direction : {Direction::read, Direction::write}) {
    for (unsigned threads = 1; threads <= kMostThreads; ++threads) figures.add(kComexRdma, direction, threads, 2e9);
  }
  figures.add(kPerftest, Direction::read, 1, 2e9);
  const std::string text = to_text(figures, {}, false);
  EXPECT_EQ(text.find("  perftest  "), text.rfind("  perftest  ")) << text;  // it has a row where it has figures
  EXPECT_NE(text.find("  perftest                    1.86       -       -       -         -"), std::string::npos)
      << text;
  EXPECT_NE(text.find("  comex rdma : perftest       1.00       -"), std::string::npos) << text;
}

TEST(Report, toJson_saysWhatWasFoundAndSkipped) {
  Figures figures = drifting_figures();
  figures.skipped.push_back({"nbdkit", "not installed"});
  const auto json = to_json(figures, judge(figures));
  EXPECT_EQ(json["skipped"][0]["system"], "nbdkit");
  EXPECT_EQ(json["goals"].size(), 7u);
  EXPECT_EQ(json["goals"][0]["result"], "met");
  EXPECT_EQ(json["latency"][0]["p50_us"], 0.8);
}

TEST(Report, toText_warnsOfABusyMachine) {
  Figures figures = drifting_figures();
  EXPECT_EQ(to_text(figures, judge(figures), false).find("busy"), std::string::npos);
  figures.load_before = 0.85;
  EXPECT_NE(to_text(figures, judge(figures), false).find("85 % busy"), std::string::npos);
}

TEST(Report, toText_fitsAnAnsiTerminalOrNone) {
  const Figures figures = drifting_figures();
  const std::string plain = to_text(figures, judge(figures), false);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_NE(plain.find("missed"), std::string::npos);
  EXPECT_NE(to_text(figures, judge(figures), true).find("\x1b[31m"), std::string::npos);
}

}  // namespace
}  // namespace comex::bench

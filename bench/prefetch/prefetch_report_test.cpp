#include "bench/prefetch/prefetch_report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "bench/child.h"
#include "bench/paging/system.h"
#include "bench/prefetch/paged_program.h"
#include "bench/prefetch/prefetch_plot.h"
#include "bench/prefetch/programs.h"

namespace comex::bench {
namespace {

const std::string kShm(kPagingShm);
const std::string kTcp(kPagingTcp);
const Contestant kZram{std::string(kPagingZram), ""};
const Contestant kDisk{std::string(kPagingDisk), ""};

RunCounts counted(std::uint64_t from_node, std::uint64_t prefetched, std::uint64_t used) {
  RunCounts counts;
  counts.from_node = from_node;
  counts.prefetched = prefetched;
  counts.used = used;
  return counts;
}

// Two rounds on a machine that gets slower; the disk was in the first only.
PrefetchFigures made_up() {
  PrefetchFigures figures;
  figures.rounds = 2;
  figures.usual = "next";
  figures.usual_evict = "2q";
  figures.prefetchers = {"none", "next", "readahead", "leap"};
  figures.evictors = {"fifo"};
  for (const std::string& system : {kShm, kTcp}) {
    for (const std::string& prefetch : figures.prefetchers) figures.contestants.push_back({system, prefetch});
    figures.contestants.push_back({system, "next", "fifo"});
  }
  figures.contestants.push_back(kZram);
  figures.contestants.push_back(kDisk);
  for (const std::string_view name : {std::string_view("sequential"), std::string_view("random"), kGnuSort}) {
    figures.programs.push_back({std::string(name), std::uint64_t{1} << 30, std::uint64_t{512} << 20, 0.5});
    for (const unsigned round : {1u, 2u}) {
      const double slow = round;
      for (const std::string& system : {kShm, kTcp}) {
        const double link = system == kShm ? 1 : 4;
        figures.at(name, {system, "none"}).rounds[round] = 4 * slow * link;
        figures.at(name, {system, "next"}).rounds[round] = 2 * slow * link;
        figures.at(name, {system, "readahead"}).rounds[round] = 3 * slow * link;
        figures.at(name, {system, "leap"}).rounds[round] = 1.5 * slow * link;
        figures.at(name, {system, "next", "fifo"}).rounds[round] = 2.4 * slow * link;
      }
      figures.at(name, kZram).rounds[round] = 8 * slow;
    }
    figures.at(name, kDisk).rounds[1] = 20;
    figures.at(name, {kShm, "none"}).counts = counted(1000, 0, 0);
    figures.at(name, {kShm, "leap"}).counts = counted(100, 1000, 900);
    figures.at(name, {kShm, "next", "fifo"}).counts = counted(700, 1000, 900);
  }
  return figures;
}

const Goal& prefetch_goal(const std::vector<Goal>& goals, std::string_view name) {
  for (const Goal& goal : goals) {
    if (goal.name == name) return goal;
  }
  static const Goal none;
  ADD_FAILURE() << "no goal called " << name;
  return none;
}

TEST(PrefetchFigures, ratio_isTakenWithinRounds) {
  const PrefetchFigures figures = made_up();
  EXPECT_DOUBLE_EQ(*figures.ratio("random", {kShm, "leap"}, kZram), 1.5 / 8);
  EXPECT_DOUBLE_EQ(*figures.ratio("random", {kShm, "leap"}, kDisk), 1.5 / 20);
  EXPECT_FALSE(figures.ratio("random", {kShm, "crystal ball"}, kZram));
  EXPECT_DOUBLE_EQ(*figures.ratio("random", {kShm, "next", "fifo"}, kZram), 2.4 / 8);
  EXPECT_DOUBLE_EQ(*figures.coverage(*figures.find("random", {kShm, "leap"})), 0.9);
  EXPECT_FALSE(figures.coverage(*figures.find("random", {kShm, "next", "fifo"})));  // there is no "none" of its kind
}

TEST(PrefetchGoals, judge_theUsualPrefetcherBesideTheKernel) {
  const std::vector<Goal> goals = judge(made_up());
  const Goal& sequential = prefetch_goal(goals, "shm: sequential pages");
  EXPECT_EQ(sequential.met, false);
  EXPECT_EQ(sequential.figure, "0.25 x with next, 0.19 x with leap");
  EXPECT_EQ(prefetch_goal(goals, "shm: random pages").met, true);
  EXPECT_EQ(prefetch_goal(goals, "shm: GNU sort").met, true);
  EXPECT_EQ(prefetch_goal(goals, "TCP: every tenth page").met, std::nullopt);
}

TEST(PrefetchGoals, judge_leapByItsWorstProgram) {
  PrefetchFigures figures = made_up();
  EXPECT_EQ(prefetch_goal(judge(figures), "shm: leap beside readahead").met, true);
  for (auto& [round, seconds] : figures.at("sequential", {kShm, "leap"}).rounds) seconds *= 3;
  for (auto& [round, seconds] : figures.at("random", {kShm, "leap"}).rounds) seconds *= 2.04;
  const std::vector<Goal> goals = judge(figures);
  EXPECT_EQ(prefetch_goal(goals, "shm: leap beside readahead").met, false);
  EXPECT_EQ(prefetch_goal(goals, "shm: leap beside readahead").figure, "at worst 1.50 x, on sequential, of 2");
  EXPECT_EQ(prefetch_goal(goals, "shm: leap on random pages").met, true);
}

TEST(PrefetchGoals, judge_whatPrefetchingCostsAtRandom) {
  PrefetchFigures figures = made_up();
  const auto goal = [&] { return prefetch_goal(judge(figures), "shm: prefetching on random pages"); };
  for (const double ratio : {1.02, 1.04}) {
    figures.at("random", {kShm, "none"}).rounds = figures.at("random", {kShm, figures.usual}).rounds;
    for (auto& [round, seconds] : figures.at("random", {kShm, "none"}).rounds) seconds /= ratio;
    EXPECT_EQ(goal().met, ratio < 1.03) << goal().figure;
  }
}

TEST(PrefetchGoals, judge_nothingMeasuredNothingKnown) {
  for (const Goal& goal : judge(PrefetchFigures{})) EXPECT_EQ(goal.met, std::nullopt) << goal.name;
}

TEST(PrefetchReport, toText_showsFiguresAndWhatIsMissing) {
  PrefetchFigures figures = made_up();
  figures.skipped.push_back({"redis-zipf", "it is not installed"});
  figures.failed.push_back({"random: zram", "it did not find what it finds natively"});
  const std::string text = to_text(figures, judge(figures), false);
  EXPECT_NE(text.find("gnu-sort: 1.00 GiB wanted, 512 MiB local"), std::string::npos) << text;
  EXPECT_NE(text.find("comex shm, leap"), std::string::npos);
  EXPECT_NE(text.find("comex shm, next, fifo"), std::string::npos);
  EXPECT_NE(text.find("90 %"), std::string::npos);
  EXPECT_NE(text.find("redis-zipf skipped: it is not installed"), std::string::npos);
  EXPECT_NE(text.find("random: zram failed: it did not"), std::string::npos);
}

TEST(PrefetchReport, toJson_hasEveryFigure) {
  const PrefetchFigures figures = made_up();
  const auto json = to_json(figures, judge(figures));
  ASSERT_EQ(json["figures"].size(), 3u * 12);
  const auto& leap = json["figures"][3];
  EXPECT_EQ(leap["prefetch"], "leap");
  EXPECT_DOUBLE_EQ(leap["to_readahead"], 0.5);
  EXPECT_DOUBLE_EQ(leap["accuracy"], 0.9);
  EXPECT_EQ(leap["pages_for_nothing"], 100);
  EXPECT_TRUE(leap["lead_us_p50"].is_null());
  EXPECT_TRUE(leap["evict"].is_null());
  EXPECT_EQ(json["figures"][4]["evict"], "fifo");
}

TEST(PrefetchPlot, draw_onlyWhatWasMeasured) {
  const std::vector<plot::Drawing> plots = draw(made_up());
  ASSERT_EQ(plots.size(), 6u);  // nothing was counted over TCP
  EXPECT_EQ(plots[0].name, "prefetch-time-shm");
  EXPECT_EQ(plots[0].chart.categories.size(), 3u);
  ASSERT_EQ(plots[0].chart.series.size(), 4u);
  EXPECT_DOUBLE_EQ(plots[0].chart.series[3].points[2].y, 1.5 / 8);
  EXPECT_EQ(plots[1].name, "prefetch-coverage-shm");
  ASSERT_EQ(plots[1].chart.series.size(), 1u);
  EXPECT_DOUBLE_EQ(plots[1].chart.series[0].points[0].y, 90);
  EXPECT_EQ(plots[3].name, "evict-time-shm");
  ASSERT_EQ(plots[3].chart.series.size(), 2u);
  EXPECT_EQ(plots[3].chart.series[1].name, "2q");
  EXPECT_TRUE(draw(PrefetchFigures{}).empty());
}

TEST(PrefetchPlot, write_makesTheFolder) {
  const Expected<TempFolder> folder = TempFolder::create();
  ASSERT_TRUE(folder);
  const Expected<void> written = plot::write_drawings(draw(made_up()), folder->path() + "/new");
  ASSERT_TRUE(written) << written.error().message;
  std::ifstream file(folder->path() + "/new/prefetch-time-tcp.svg");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_NE(text.find("<svg"), std::string::npos);
  EXPECT_NE(text.find("gnu-sort"), std::string::npos);
  EXPECT_FALSE(plot::write_drawings(draw(made_up()), "/dev/null/folder"));
}

TEST(LoadOutcome, parse_figuresOrAnError) {
  const auto outcome = parse_load_outcome({R"({"workload":"bfs","seconds":1.5,"result":"ff","right":true})", 9, 4096});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->seconds, 1.5);
  EXPECT_EQ(outcome->result, "ff");
  EXPECT_FALSE(parse_load_outcome({"no", 0, 0}));
  EXPECT_FALSE(parse_load_outcome({"[1]", 0, 0}));
}

}  // namespace
}  // namespace comex::bench

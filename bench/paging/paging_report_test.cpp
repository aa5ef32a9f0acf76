#include "bench/paging/paging_report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bench/paging/system.h"

namespace comex::bench {
namespace {

// Three rounds on a machine that gets slower and slower; the disk was in the first only.
PagingFigures drifting_figures() {
  PagingFigures figures;
  figures.set_bytes = std::uint64_t{1} << 30;
  figures.local_bytes = std::uint64_t{512} << 20;
  figures.rounds = 3;
  figures.systems = {std::string(kPagingShm), std::string(kPagingZram), std::string(kPagingTcp),
                     std::string(kPagingDisk)};
  for (unsigned round = 1; round <= 3; ++round) {
    const double slowness = round * round;
    for (const unsigned threads : kPagingThreads) {
      for (const std::string_view column : kPagingColumns) {
        figures.add(kPagingShm, column, threads, round, 4 * slowness);
        figures.add(kPagingZram, column, threads, round, 8 * slowness);
        figures.add(kPagingTcp, column, threads, round, 12 * slowness);
        if (round == 1) figures.add(kPagingDisk, column, threads, round, 48);
      }
    }
  }
  return figures;
}

const Goal& paging_goal(const std::vector<Goal>& goals, std::string_view name) {
  for (const Goal& goal : goals) {
    if (goal.name == name) return goal;
  }
  static const Goal none;
  ADD_FAILURE() << "no goal called " << name;
  return none;
}

TEST(PagingFigures, ratio_isTakenWithinRoundsThatBothWereIn) {
  const PagingFigures figures = drifting_figures();
  EXPECT_NEAR(*figures.ratio(kPagingShm, kPagingZram, "random", 1), 0.5, 1e-9);
  EXPECT_NEAR(*figures.ratio(kPagingTcp, kPagingDisk, "random", 2), 0.25, 1e-9);
  EXPECT_FALSE(figures.ratio(kPagingTcp, "floppy", "random", 1));
  EXPECT_NEAR(figures.find(kPagingShm, "random", 1)->middle(), 16, 1e-9);
}

TEST(PagingGoals, judge_metMissedUnknown) {
  PagingFigures figures = drifting_figures();
  std::vector<Goal> goals = judge(figures);
  EXPECT_EQ(paging_goal(goals, "shm: sequential pages").met, false);
  EXPECT_EQ(paging_goal(goals, "shm: random pages").met, true);
  EXPECT_EQ(paging_goal(goals, "TCP: random pages").met, true);
  EXPECT_EQ(paging_goal(goals, "shm: ratio to zram with two threads").met, true);
  EXPECT_EQ(judge(PagingFigures{}).size(), goals.size());
  for (const Goal& goal : judge(PagingFigures{})) EXPECT_EQ(goal.met, std::nullopt);
}

TEST(PagingGoals, judge_threadsByTheWorstPattern) {
  PagingFigures figures = drifting_figures();
  for (unsigned round = 1; round <= 3; ++round) figures.add(kPagingShm, "stride10", 2, round, 6.0 * round * round);
  const Goal goal = paging_goal(judge(figures), "shm: ratio to zram with two threads");
  EXPECT_EQ(goal.met, false);
  EXPECT_NEAR(goal.value, 1.5, 1e-9);
  EXPECT_EQ(goal.figure, "1.00, 1.50, 1.00, 1.00 x for sequential, tenth, random, written");
}

TEST(PagingReport, toText_showsFiguresRatiosAndWhatIsMissing) {
  PagingFigures figures = drifting_figures();
  figures.skipped.push_back({"floppy", "no drive"});
  figures.failed.push_back({"tape", "page 7 is wrong"});
  const std::string text = to_text(figures, judge(figures), false);
  EXPECT_NE(text.find("1.00 GiB touched, 512 MiB local"), std::string::npos) << text;
  EXPECT_NE(text.find("us per page, 2 threads"), std::string::npos);
  EXPECT_NE(text.find("comex tcp : disk file"), std::string::npos);
  EXPECT_NE(text.find("floppy skipped: no drive"), std::string::npos);
  EXPECT_NE(text.find("tape failed: page 7 is wrong"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(PagingReport, toText_withoutAnySystemHasNoTables) {
  const std::string text = to_text(PagingFigures{}, judge(PagingFigures{}), false);
  EXPECT_EQ(text.find("us per page"), std::string::npos);
  EXPECT_NE(text.find("not measured"), std::string::npos);
}

TEST(PagingReport, toJson_hasEveryRound) {
  const PagingFigures figures = drifting_figures();
  const auto json = to_json(figures, judge(figures));
  EXPECT_EQ(json["figures"].size(), 4 * kPagingColumns.size() * kPagingThreads.size());
  EXPECT_EQ(json["figures"][0]["rounds"].size(), 3u);
  EXPECT_EQ(json["goals"][2]["result"], "met");
}

constexpr std::uint64_t kLocal = 8 * 4096;

std::string load_line(unsigned resident, unsigned wrong) {
  return fmt::format(R"({{"pages":16,"threads":1,"fill_us":1.5,"passes":[{{"pattern":"sequential","us":2}},)"
                     R"({{"pattern":"stride10","us":3}},{{"pattern":"random","us":4}},)"
                     R"({{"pattern":"random-write","us":5}}],"pages_resident":{},"pages_wrong":{}}})"
                     "\n",
                     resident, wrong);
}

TEST(LoadLine, parse_figuresByColumn) {
  const auto found = parse_load_line(load_line(8, 0), kLocal);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->at("fill"), 1.5);
  EXPECT_EQ(found->at("random-write"), 5);
}

TEST(LoadLine, parse_refusesWrongPages) {
  const auto wrong = parse_load_line(load_line(8, 2), kLocal);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "2 pages were wrong");
}

TEST(LoadLine, parse_refusesASystemThatDoesNotPage) {
  const auto found = parse_load_line(load_line(16, 0), kLocal);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message,
            "64.0 KiB of the pages were local in the end, 32.0 KiB are allowed: it does not page");
}

TEST(LoadLine, parse_refusesOtherLines) {
  EXPECT_FALSE(parse_load_line("hello", kLocal));
  EXPECT_FALSE(parse_load_line("[]", kLocal));
  EXPECT_FALSE(parse_load_line(R"({"fill_us":1.5,"passes":[],"pages_wrong":0})", kLocal));
}

}  // namespace
}  // namespace comex::bench

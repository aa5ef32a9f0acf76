#include "bench/sensitivity/sensitivity_report.h"

#include <gtest/gtest.h>

#include "bench/paging/system.h"
#include "bench/prefetch/contestants.h"

namespace comex::bench {
namespace {

RunCounts served(std::uint64_t staging, std::uint64_t buffer, std::uint64_t node) {
  RunCounts counts;
  counts.from_staging = staging;
  counts.from_buffer = buffer;
  counts.from_node = node;
  return counts;
}

// The disk gave up with a tenth of the memory.
SensitivityFigures some_sensitivity() {
  SensitivityFigures figures;
  figures.prefetch = "leap";
  figures.share = 25;
  figures.programs = {{"sort", 100 << 20, 1}, {"xz", 90 << 20, 2}};
  for (const char* const program : {"sort", "xz"}) {
    for (const unsigned value : {1024U, 64U}) {
      figures.points.push_back({Sweep::threshold, program, std::string(kPagingTcp), value, 64.0 / value + 1, {}});
    }
    for (const unsigned share : {100U, 10U}) {
      const double slow = 100.0 / share;
      figures.points.push_back(
          {Sweep::memory, program, std::string(kPagingShm), share, slow, served(1000, 3000, 6000)});
      figures.points.push_back({Sweep::memory, program, std::string(kPagingZram), share, 4 * slow, {}});
    }
    figures.points.push_back({Sweep::memory, program, std::string(kPagingDisk), 100, 20, {}});
    figures.points.push_back({Sweep::memory, program, std::string(kPagingDisk), 10, 60, {}, true});
  }
  figures.skipped = {{"xz: disk file, memory 10", "it took longer than 60 s"}};
  return figures;
}

TEST(SensitivityFigures, speedUp_whereBothWereMeasured) {
  const SensitivityFigures figures = some_sensitivity();
  EXPECT_DOUBLE_EQ(figures.speed_up("xz", kPagingShm, kPagingZram, 10)->times, 4);
  EXPECT_DOUBLE_EQ(figures.speed_up("xz", kPagingShm, kPagingDisk, 100)->times, 20);
  EXPECT_FALSE(figures.speed_up("xz", kPagingShm, kPagingDisk, 100)->at_least);
  EXPECT_DOUBLE_EQ(figures.speed_up("xz", kPagingShm, kPagingDisk, 10)->times, 6);
  EXPECT_TRUE(figures.speed_up("xz", kPagingShm, kPagingDisk, 10)->at_least);
  EXPECT_FALSE(figures.speed_up("xz", kPagingDisk, kPagingShm, 10)) << "it may be anything";
  EXPECT_FALSE(figures.speed_up("xz", kPagingShm, kPagingDisk, 50));
  EXPECT_EQ(figures.values(Sweep::threshold), (std::vector<unsigned>{64, 1024}));
  EXPECT_TRUE(figures.values(Sweep::buffer).empty());
}

TEST(SensitivityShares, areOfWhatWasReallyLocal) {
  constexpr std::uint64_t kSmall = std::uint64_t{40} << 20;
  EXPECT_EQ(percent_of(share_of(kSmall, 75), kSmall), 75U);
  EXPECT_EQ(percent_of(share_of(kSmall, 25), kSmall), 40U) << "comex run takes no less";
  EXPECT_EQ(percent_of(share_of(kSmall, 10), kSmall), 40U);
  EXPECT_EQ(percent_of(share_of(kSmall / 4, 10), kSmall / 4), 100U);
  EXPECT_EQ(percent_of(share_of(kSmall, 100), kSmall), 100U);
}

TEST(SensitivityReport, toText_hasTablesOfWhatWasMeasured) {
  const std::string text = to_text(some_sensitivity());
  EXPECT_NE(text.find("T, frames kept at hand"), std::string::npos) << text;
  EXPECT_EQ(text.find("B, pages in the buffer"), std::string::npos);
  EXPECT_NE(text.find("speed-up of comex shm over zram"), std::string::npos);
  EXPECT_NE(text.find("4.00 x"), std::string::npos);
  EXPECT_NE(text.find("1/3/6"), std::string::npos);
  EXPECT_NE(text.find("> 60.0"), std::string::npos) << text;
  EXPECT_NE(text.find("> 6.00 x"), std::string::npos) << text;
  EXPECT_NE(text.find("it took longer than 60 s"), std::string::npos);
}

TEST(SensitivityReport, saysThatItWasInterrupted) {
  SensitivityFigures figures = some_sensitivity();
  EXPECT_EQ(to_text(figures).find("interrupted"), std::string::npos);
  EXPECT_EQ(to_json(figures)["interrupted"], false);
  figures.interrupted = true;
  EXPECT_NE(to_text(figures).find("interrupted: this is what had been measured"), std::string::npos);
  EXPECT_EQ(to_json(figures)["interrupted"], true);
}

TEST(SensitivityReport, toJson_hasEveryPoint) {
  const auto json = to_json(some_sensitivity());
  EXPECT_EQ(json["figures"].size(), some_sensitivity().points.size());
  EXPECT_EQ(json["figures"][0]["varied"], "threshold");
  EXPECT_EQ(json["figures"][2]["faults_from_node"], 6000);
  EXPECT_FALSE(json["figures"][6].contains("at_least"));
  EXPECT_EQ(json["figures"][7]["at_least"], true);
}

TEST(SensitivityReport, draw_onlyWhatHasALine) {
  const std::vector<plot::Drawing> plots = draw(some_sensitivity());
  ASSERT_EQ(plots.size(), 3U) << "of the disk one point is known, and that it took longer at another";
  EXPECT_EQ(plots[0].name, "sensitivity-threshold");
  EXPECT_DOUBLE_EQ(plots[0].chart.series[0].points[1].y, (64.0 / 1024 + 1) / 2);
  EXPECT_EQ(plots[1].name, "sensitivity-memory-shm-zram");
  EXPECT_EQ(plots[2].name, "sensitivity-faults-shm");
  EXPECT_DOUBLE_EQ(plots[2].chart.series[2].points[0].y, 60);
  EXPECT_TRUE(draw(SensitivityFigures{}).empty());
}

}  // namespace
}  // namespace comex::bench

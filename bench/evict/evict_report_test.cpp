#include "bench/evict/evict_report.h"

#include <gtest/gtest.h>

namespace comex::bench {
namespace {

EvictFigures some() {
  EvictFigures figures;
  figures.local_bytes = 64 << 20;
  figures.rounds = 3;
  figures.strings = {{"loop", 110, 1000, 90, {{"fifo", {990, 900, 1000}, {5, 6, 7}}, {"2q", {}, {}}}}};
  figures.failed = {{"loop, 2q", "it ended with 1"}};
  return figures;
}

TEST(EvictReport, text_showsEachPolicyBesideTheBest) {
  const std::string text = to_text(some());
  EXPECT_NE(text.find("11.00 x"), std::string::npos) << text;
  EXPECT_NE(text.find("loop, 2q failed: it ended with 1"), std::string::npos) << text;
}

TEST(EvictReport, json_hasWhatWasMeasured) {
  const auto json = to_json(some());
  ASSERT_EQ(json["strings"].size(), 1U);
  ASSERT_EQ(json["strings"][0]["policies"].size(), 1U);
  EXPECT_EQ(json["strings"][0]["policies"][0]["missed"], 990);
  EXPECT_EQ(json["strings"][0]["best"], 90);
}

TEST(EvictReport, drawing_showsEachPolicyBesideTheBest) {
  const auto drawings = draw(some());
  ASSERT_EQ(drawings.size(), 1U);
  const plot::Chart& chart = drawings[0].chart;
  EXPECT_EQ(chart.categories, std::vector<std::string>{"loop"});
  ASSERT_EQ(chart.series.size(), 2U);
  ASSERT_EQ(chart.series[0].points.size(), 1U);
  EXPECT_DOUBLE_EQ(chart.series[0].points[0].y, 11);
  EXPECT_TRUE(chart.series[1].points.empty()) << "it failed";
  EXPECT_TRUE(draw(EvictFigures{}).empty());
}

TEST(EvictFigures, parseMissed_addsUpWhereFaultsWereServed) {
  const char* const stats =
      R"({"faults":{"first_touch":7,"from_staging":1,"from_read_buffer":2,"from_node":4,"write_to_clean_page":9}})";
  EXPECT_EQ(*parse_missed(stats), 7U);
  EXPECT_FALSE(parse_missed("{}"));
  EXPECT_FALSE(parse_missed("no"));
}

TEST(EvictFigures, parseSeconds_wrongPagesAreNoFigure) {
  EXPECT_DOUBLE_EQ(*parse_seconds(R"({"seconds":1.5,"pages_wrong":0})"), 1.5);
  EXPECT_FALSE(parse_seconds(R"({"seconds":1.5,"pages_wrong":1})"));
  EXPECT_FALSE(parse_seconds("Killed"));
}

}  // namespace
}  // namespace comex::bench

#include "plot/chart.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "plot/pixel_canvas.h"

namespace comex::plot {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Chart lines() {
  Chart chart{.title = "a <title> & more", .x = {.label = "local"}, .y = {.label = "times", .kind = Scale::Kind::log}};
  chart.series.push_back({.name = "comex", .points = {{100, 1}, {50, 1.4}, {10, 3}}});
  chart.series.push_back(
      {.name = "zram", .points = {{100, 1}, {50, 4}, {10, std::numeric_limits<double>::quiet_NaN()}}});
  return chart;
}

TEST(Chart, SvgHasTextLegendAndSeries) {
  const std::string svg = to_svg(lines());
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  for (const char* text : {"a &lt;title&gt; &amp; more", ">local<", ">times<", ">comex<", ">zram<"}) {
    EXPECT_EQ(count(svg, text), 1U) << text;
  }
  EXPECT_EQ(count(svg, "nan"), 0U);
}

TEST(Chart, BarsStandSideBySideOnZero) {
  Chart chart{.categories = {"sequential", "random"}};
  chart.series.push_back({.name = "a", .points = {{0, 1}, {1, 2}}, .kind = Series::Kind::bars});
  chart.series.push_back(
      {.name = "b", .points = {{0, 3}, {1, 4}}, .kind = Series::Kind::bars, .color = Color{1, 2, 3}});
  const std::string svg = to_svg(chart);
  EXPECT_EQ(count(svg, ">sequential<"), 1U);
  EXPECT_EQ(count(svg, ">0<"), 1U);
  EXPECT_EQ(count(svg, "fill=\"#010203\""), 3U);  // two bars and the legend
}

TEST(Chart, AnEmptyOneCanBeDrawn) {
  EXPECT_FALSE(to_svg(Chart{}).empty());
  EXPECT_TRUE(to_png(Chart{}));
}

TEST(Chart, PngIsAPng) {
  const auto png = to_png(lines());
  ASSERT_TRUE(png);
  EXPECT_EQ(png->substr(0, 8), "\x89PNG\r\n\x1a\n");
}

// Every cell another color than its neighbours: nothing can be joined.
TEST(Chart, AFullGridIsASmallSvg) {
  Chart chart{.x = {.least = 0, .most = 1}, .y = {.least = 0, .most = 1}, .grid = Grid(480, 270, 5)};
  for (std::size_t i = 0; i < 5; ++i) chart.kinds.push_back({std::to_string(i), palette(i)});
  std::mt19937 random(1);
  std::uniform_real_distribution<double> anywhere(0, 1);
  for (std::uint32_t i = 0; i < 1'000'000; ++i) chart.grid->add(anywhere(random), anywhere(random), i % 5);
  EXPECT_LT(to_svg(chart).size(), 2'000'000U);
}

TEST(PixelCanvas, DrawsWhereItIsTold) {
  PixelCanvas canvas(40, 20);
  canvas.rectangle({2, 3}, 4, 5, Color{10, 20, 30});
  EXPECT_EQ(canvas.at(2, 3), (Color{10, 20, 30}));
  EXPECT_EQ(canvas.at(5, 7), (Color{10, 20, 30}));
  EXPECT_EQ(canvas.at(6, 7), kWhite);
  canvas.cells({20, 0}, 2, std::vector<CellRun>{{1, 2, 3}}, kBlack);
  EXPECT_EQ(canvas.at(22, 4), kBlack);
  EXPECT_EQ(canvas.at(27, 5), kBlack);
  EXPECT_EQ(canvas.at(28, 5), kWhite);
  canvas.text({10, 18}, "l", Align::left, Turn::none);
  EXPECT_EQ(canvas.at(12, 17), kBlack);
}

TEST(PixelCanvas, WhatLiesOutsideDoesNoHarm) {
  PixelCanvas canvas(10, 10);
  canvas.rectangle({-5, -5}, 100, 100, kGrey);
  canvas.line(std::vector<Point>{{-1e6, -50}, {1e6, 50}}, 2, kBlack);
  canvas.text({-20, 200}, "text\xff", Align::middle, Turn::upwards);
  EXPECT_EQ(canvas.at(0, 9), kGrey);
}

}  // namespace
}  // namespace comex::plot

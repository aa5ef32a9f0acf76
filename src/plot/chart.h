// A drawing with two axes, as a value: fill it in, then to_svg() or to_png().
//
//   Chart chart{.title = "Local memory", .x = {.label = "local, %"}, .y = {.label = "slow-down", .kind =
//   Scale::Kind::log}}; chart.series.push_back({.name = "comex", .points = {{100, 1}, {50, 1.4}}});
//   write(to_svg(chart));
//
// Bars: give `categories`, and series of kind bars whose x is the number of a category; those of one category stand
// side by side. Very many points: a Grid, with one name and color per kind. All three can be in one chart.
//
// Thread safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "plot/canvas.h"
#include "plot/grid.h"
#include "plot/scale.h"

namespace comex::plot {

struct Axis {
  std::string label{};
  Scale::Kind kind = Scale::Kind::linear;
  std::optional<double> least{};  // else from the data, rounded; bars begin at 0
  std::optional<double> most{};
  std::vector<Tick> ticks{};     // none: chosen
  std::vector<double> breaks{};  // of the y axis: where something is left out
};

struct Series {
  enum class Kind { line, bars };

  std::string name{};  // empty: not in the legend
  std::vector<Point> points{};
  Kind kind = Kind::line;
  std::optional<Color> color{};  // else the next of the palette
};

struct Kind {
  std::string name{};
  Color color;
};

struct Chart {
  std::string title{};
  std::string note{};  // a line below the title
  Axis x{};
  Axis y{};
  std::vector<std::string> categories{};  // in place of ticks of the x axis: the first is at 0
  std::vector<Series> series{};
  std::optional<Grid> grid{};  // spans both axes, so give their ends; its size is the chart's
  std::vector<Kind> kinds{};   // of the grid
  std::uint32_t width = 640;   // of the inside, in pixels
  std::uint32_t height = 400;
};

// Told apart by those who see few colors, too (Okabe and Ito); begins again after eight.
Color palette(std::size_t index);

std::string to_svg(const Chart& chart);
Expected<std::string> to_png(const Chart& chart);

}  // namespace comex::plot

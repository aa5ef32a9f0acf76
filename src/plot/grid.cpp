#include "plot/grid.h"

#include <algorithm>

namespace comex::plot {

Grid::Grid(std::uint32_t columns, std::uint32_t rows, std::uint32_t kinds)
    : columns_(columns), rows_(rows), kinds_(kinds), counts_(std::size_t{columns} * rows * kinds) {}

void Grid::add(double x, double y, std::uint32_t kind) {
  if (!(x >= 0 && x <= 1 && y >= 0 && y <= 1)) return;
  const auto column = std::min(static_cast<std::uint32_t>(x * columns_), columns_ - 1);
  const auto row = std::min(static_cast<std::uint32_t>((1 - y) * rows_), rows_ - 1);
  ++counts_[(std::size_t{row} * columns_ + column) * kinds_ + kind];
}

std::uint32_t Grid::shown(std::uint32_t column, std::uint32_t row) const {
  const std::uint32_t* const counts = &counts_[(std::size_t{row} * columns_ + column) * kinds_];
  std::uint32_t most = kinds_;
  for (std::uint32_t kind = 0; kind < kinds_; ++kind) {
    if (counts[kind] > 0 && (most == kinds_ || counts[kind] >= counts[most])) most = kind;
  }
  return most;
}

std::vector<CellRun> Grid::runs(std::uint32_t kind) const {
  std::vector<CellRun> runs;
  for (std::uint32_t row = 0; row < rows_; ++row) {
    bool going_on = false;
    for (std::uint32_t column = 0; column < columns_; ++column) {
      const bool here = shown(column, row) == kind;
      if (here && going_on) {
        ++runs.back().count;
      } else if (here) {
        runs.push_back({column, row, 1});
      }
      going_on = here;
    }
  }
  return runs;
}

}  // namespace comex::plot

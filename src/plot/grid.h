// Very many points, thinned to what can be seen: squares that remember how many points of each kind fell into them. A
// square is shown in the color of the kind it has most of.
#pragma once

#include <cstdint>
#include <vector>

#include "plot/canvas.h"

namespace comex::plot {

class Grid {
 public:
  static constexpr std::uint32_t kCell = 2;  // pixels

  Grid(std::uint32_t columns, std::uint32_t rows, std::uint32_t kinds);

  // From 0 to 1 from the left, and from the bottom; what is outside is not counted. REQUIRES: there is such a kind.
  void add(double x, double y, std::uint32_t kind);

  // What to show of a kind, by rows from above. Of kinds that are as many, the last is shown.
  [[nodiscard]] std::vector<CellRun> runs(std::uint32_t kind) const;
  [[nodiscard]] std::uint32_t columns() const { return columns_; }
  [[nodiscard]] std::uint32_t rows() const { return rows_; }

 private:
  // kinds_ if there are no points.
  [[nodiscard]] std::uint32_t shown(std::uint32_t column, std::uint32_t row) const;

  const std::uint32_t columns_;
  const std::uint32_t rows_;
  const std::uint32_t kinds_;
  std::vector<std::uint32_t> counts_;
};

}  // namespace comex::plot

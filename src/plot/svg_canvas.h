#pragma once

#include <string>

#include "plot/canvas.h"

namespace comex::plot {

class SvgCanvas final : public Canvas {
 public:
  SvgCanvas(double width, double height);

  void rectangle(Point corner, double width, double height, Color color) override;
  void line(std::span<const Point> points, double width, Color color) override;
  void text(Point at, std::string_view text, Align align, Turn turn) override;
  void cells(Point corner, std::uint32_t size, std::span<const CellRun> runs, Color color) override;

  // The whole document. Nothing can be drawn after.
  [[nodiscard]] std::string finish() &&;

 private:
  std::string svg_;
};

}  // namespace comex::plot

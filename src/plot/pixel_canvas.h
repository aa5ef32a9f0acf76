#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/expected.h"
#include "plot/canvas.h"

namespace comex::plot {

class PixelCanvas final : public Canvas {
 public:
  PixelCanvas(std::uint32_t width, std::uint32_t height);

  void rectangle(Point corner, double width, double height, Color color) override;
  void line(std::span<const Point> points, double width, Color color) override;
  void text(Point at, std::string_view text, Align align, Turn turn) override;
  void cells(Point corner, std::uint32_t size, std::span<const CellRun> runs, Color color) override;

  // REQUIRES: it is inside.
  [[nodiscard]] Color at(std::uint32_t x, std::uint32_t y) const;
  [[nodiscard]] Expected<std::string> to_png() const;

 private:
  // A share of the color, from 0 to 1, over what is there. Outside there is nothing.
  void mix(std::int64_t x, std::int64_t y, Color color, double share);
  void segment(Point from, Point to, double width, Color color);

  const std::uint32_t width_;
  const std::uint32_t height_;
  std::vector<std::uint8_t> bytes_;  // red, green, blue, by rows
};

}  // namespace comex::plot

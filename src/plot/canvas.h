// What a drawing is drawn on: an SVG or pixels. Positions are in pixels, from the upper left corner.
//
// Thread safety: none; one drawing, one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace comex::plot {

struct Color {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  friend constexpr bool operator==(Color, Color) = default;
};

inline constexpr Color kBlack{34, 34, 34};
inline constexpr Color kGrey{221, 221, 221};
inline constexpr Color kWhite{255, 255, 255};

struct Point {
  double x = 0;
  double y = 0;
};

enum class Align { left, middle, right };
enum class Turn { none, upwards };

// So many squares of a grid, side by side.
struct CellRun {
  std::uint32_t column = 0;
  std::uint32_t row = 0;
  std::uint32_t count = 0;
};

class Canvas {
 public:
  // Of a letter, near enough to plan with.
  static constexpr double kLetterWidth = 6.5;
  static constexpr double kLetterHeight = 13;

  virtual ~Canvas() = default;
  virtual void rectangle(Point corner, double width, double height, Color color) = 0;
  virtual void line(std::span<const Point> points, double width, Color color) = 0;
  // `at` is the end, or the middle, of the line that the letters stand on. Letters beyond ASCII appear as question
  // marks.
  virtual void text(Point at, std::string_view text, Align align, Turn turn = Turn::none) = 0;
  // Squares of `size` pixels of a grid with this upper left corner.
  virtual void cells(Point corner, std::uint32_t size, std::span<const CellRun> runs, Color color) = 0;
};

}  // namespace comex::plot

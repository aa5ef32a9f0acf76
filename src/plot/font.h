// The letters of ASCII, 6 pixels wide and 13 high: the font "6x13" of X11's misc-fixed, which is in the public domain.
#pragma once

#include <array>
#include <cstdint>

namespace comex::plot {

struct Font {
  static constexpr int kWidth = 6;
  static constexpr int kHeight = 13;
  static constexpr int kAscent = 11;  // rows above the line that letters stand on
  static constexpr char kFirst = ' ';
  static constexpr char kLast = '~';

  using Glyph = std::array<std::uint8_t, kHeight>;  // by rows, the highest bit is the leftmost pixel
  // A question mark for what is not there.
  static const Glyph& glyph(char letter);
};

}  // namespace comex::plot

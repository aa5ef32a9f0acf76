#include "plot/svg_canvas.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace comex::plot {
namespace {

std::string hex(Color color) {
  return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue);
}

// A tenth of a pixel is enough, and no byte is spent on zeros.
std::string number(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

// Whatever bytes there are, the document stays well-formed.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += letter >= ' ' && letter <= '~' ? letter : '?';
    }
  }
  return out;
}

}  // namespace

SvgCanvas::SvgCanvas(double width, double height)
    : svg_(fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
                       "font-family=\"sans-serif\" font-size=\"12\" fill=\"{2}\">\n",
                       number(width), number(height), hex(kBlack))) {
  rectangle({}, width, height, kWhite);
}

void SvgCanvas::rectangle(Point corner, double width, double height, Color color) {
  svg_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", number(corner.x),
                      number(corner.y), number(width), number(height), hex(color));
}

void SvgCanvas::line(std::span<const Point> points, double width, Color color) {
  svg_ += "<polyline points=\"";
  for (const Point& point : points) svg_ += number(point.x) + "," + number(point.y) + " ";
  svg_ += fmt::format("\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"/>\n", hex(color), number(width));
}

void SvgCanvas::text(Point at, std::string_view text, Align align, Turn turn) {
  static constexpr std::string_view kAnchors[] = {"start", "middle", "end"};
  const std::string rotated =
      turn == Turn::upwards ? fmt::format(" transform=\"rotate(-90 {} {})\"", number(at.x), number(at.y)) : "";
  svg_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", number(at.x), number(at.y),
                      kAnchors[static_cast<std::size_t>(align)], rotated, escaped(text));
}

// One path for all, drawn in lines as wide as a cell, and in moves from one to the next: a few bytes each.
void SvgCanvas::cells(Point corner, std::uint32_t size, std::span<const CellRun> runs, Color color) {
  if (runs.empty()) return;
  svg_ += fmt::format("<path transform=\"translate({} {}) scale({})\" stroke=\"{}\" fill=\"none\" d=\"M0 .5",
                      number(corner.x), number(corner.y), size, hex(color));
  std::int64_t column = 0;
  std::int64_t row = 0;
  for (const CellRun& run : runs) {
    fmt::format_to(std::back_inserter(svg_), "m{} {}h{}", run.column - column, run.row - row, run.count);
    column = std::int64_t{run.column} + run.count;
    row = run.row;
  }
  svg_ += "\"/>\n";
}

std::string SvgCanvas::finish() && {
  svg_ += "</svg>\n";
  return std::move(svg_);
}

}  // namespace comex::plot

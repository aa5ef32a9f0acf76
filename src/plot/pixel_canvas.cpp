#include "plot/pixel_canvas.h"

#include <png.h>

#include <algorithm>
#include <cmath>

#include "plot/font.h"

namespace comex::plot {
namespace {

std::uint8_t between(std::uint8_t from, std::uint8_t to, double share) {
  return static_cast<std::uint8_t>(std::lround(from + (to - from) * share));
}

double distance_to_segment(Point point, Point from, Point to) {
  const double dx = to.x - from.x;
  const double dy = to.y - from.y;
  const double length = dx * dx + dy * dy;
  const double along =
      length > 0 ? std::clamp(((point.x - from.x) * dx + (point.y - from.y) * dy) / length, 0.0, 1.0) : 0;
  return std::hypot(point.x - from.x - along * dx, point.y - from.y - along * dy);
}

}  // namespace

PixelCanvas::PixelCanvas(std::uint32_t width, std::uint32_t height)
    : width_(width), height_(height), bytes_(std::size_t{width} * height * 3, 255) {}

Color PixelCanvas::at(std::uint32_t x, std::uint32_t y) const {
  const std::uint8_t* const pixel = &bytes_[(std::size_t{y} * width_ + x) * 3];
  return Color{pixel[0], pixel[1], pixel[2]};
}

void PixelCanvas::mix(std::int64_t x, std::int64_t y, Color color, double share) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_ || share <= 0) return;
  std::uint8_t* const pixel = &bytes_[(static_cast<std::size_t>(y) * width_ + static_cast<std::size_t>(x)) * 3];
  const double part = std::min(share, 1.0);
  pixel[0] = between(pixel[0], color.red, part);
  pixel[1] = between(pixel[1], color.green, part);
  pixel[2] = between(pixel[2], color.blue, part);
}

void PixelCanvas::rectangle(Point corner, double width, double height, Color color) {
  const std::int64_t right = std::lround(corner.x + width);
  const std::int64_t bottom = std::lround(corner.y + height);
  for (std::int64_t y = std::lround(corner.y); y < bottom; ++y) {
    for (std::int64_t x = std::lround(corner.x); x < right; ++x) mix(x, y, color, 1);
  }
}

void PixelCanvas::line(std::span<const Point> points, double width, Color color) {
  for (std::size_t i = 1; i < points.size(); ++i) segment(points[i - 1], points[i], width, color);
}

// A pixel has as much of the color as the line covers of it, about.
void PixelCanvas::segment(Point from, Point to, double width, Color color) {
  const double reach = width / 2 + 1;
  const auto first = [&](double a, double b) {
    return static_cast<std::int64_t>(std::floor(std::max(std::min(a, b) - reach, 0.0)));
  };
  const auto last = [&](double a, double b, double most) {
    return static_cast<std::int64_t>(std::ceil(std::min(std::max(a, b) + reach, most)));
  };
  for (std::int64_t y = first(from.y, to.y); y <= last(from.y, to.y, height_); ++y) {
    for (std::int64_t x = first(from.x, to.x); x <= last(from.x, to.x, width_); ++x) {
      const Point center{static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5};
      mix(x, y, color, width / 2 + 0.5 - distance_to_segment(center, from, to));
    }
  }
}

void PixelCanvas::text(Point at, std::string_view text, Align align, Turn turn) {
  const auto length = static_cast<double>(text.size() * Font::kWidth);
  const double back = align == Align::left ? 0 : align == Align::middle ? length / 2 : length;
  const std::int64_t x0 = std::lround(at.x);
  const std::int64_t y0 = std::lround(at.y);
  std::int64_t along = -std::lround(back);
  for (const char letter : text) {
    const Font::Glyph& glyph = Font::glyph(letter);
    for (int row = 0; row < Font::kHeight; ++row) {
      for (int column = 0; column < Font::kWidth; ++column) {
        if ((glyph[static_cast<std::size_t>(row)] >> (7 - column) & 1) == 0) continue;
        const std::int64_t right = along + column;
        const std::int64_t down = row - Font::kAscent;
        turn == Turn::none ? mix(x0 + right, y0 + down, kBlack, 1) : mix(x0 + down, y0 - right, kBlack, 1);
      }
    }
    along += Font::kWidth;
  }
}

void PixelCanvas::cells(Point corner, std::uint32_t size, std::span<const CellRun> runs, Color color) {
  for (const CellRun& run : runs) {
    rectangle({corner.x + run.column * size, corner.y + run.row * size}, run.count * size, size, color);
  }
}

Expected<std::string> PixelCanvas::to_png() const {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width_;
  image.height = height_;
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string png(size, '\0');
  if (png_image_write_to_memory(&image, png.data(), &size, 0, bytes_.data(), 0, nullptr) == 0) {
    return Error{Errc::io, std::string("cannot make a PNG: ") + image.message};
  }
  png.resize(size);
  return png;
}

}  // namespace comex::plot

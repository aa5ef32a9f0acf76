#include "plot/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "plot/pixel_canvas.h"
#include "plot/svg_canvas.h"

namespace comex::plot {
namespace {

constexpr double kMargin = 12;
constexpr double kLine = 18;    // from one line of text to the next
constexpr double kTickGap = 6;  // between an axis and its labels
constexpr double kMark = 12;    // in the legend
constexpr double kStroke = 2;   // of a series
constexpr int kTicks = 6;
constexpr double kBarShare = 0.8;  // of the room of a category

double width_of(std::string_view text) {
  return static_cast<double>(text.size()) * Canvas::kLetterWidth;
}

// A line of one pixel between two rows of them would be a grey one of two.
double crisp(double at) {
  return std::floor(at) + 0.5;
}

struct Entry {
  std::string_view name;
  Color color;
};

// Everything that is decided before the first line is drawn.
class Layout {
 public:
  explicit Layout(const Chart& chart)
      : chart_(chart),
        x_(scale_of(chart, true)),
        y_(scale_of(chart, false)),
        x_ticks_(ticks_of_x()),
        y_ticks_(ticks_of_y()) {
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
      if (!chart.series[i].name.empty()) legend_.push_back({chart.series[i].name, color_of(i)});
    }
    for (const Kind& kind : chart.kinds) legend_.push_back({kind.name, kind.color});
    inside_width_ = chart.grid ? chart.grid->columns() * Grid::kCell : chart.width;
    inside_height_ = chart.grid ? chart.grid->rows() * Grid::kCell : chart.height;
    double labels = 0;
    for (const Tick& tick : y_ticks_) labels = std::max(labels, width_of(tick.label));
    left_ = std::round(kMargin + (chart.y.label.empty() ? 0 : kLine) + labels + kTickGap);
    top_ = kMargin + (chart.title.empty() ? 0 : kLine) + (chart.note.empty() ? 0 : kLine) + kTickGap;
    double names = 0;
    for (const Entry& entry : legend_) names = std::max(names, kMargin + kMark + kTickGap + width_of(entry.name));
    width_ = left_ + inside_width_ + names + kMargin;
    // A long title must not be cut off.
    width_ = std::ceil(std::max({width_, 2 * kMargin + width_of(chart.title), 2 * kMargin + width_of(chart.note)}));
    height_ = top_ + inside_height_ + kLine + (chart.x.label.empty() ? 0 : kLine) + kMargin;
  }

  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double height() const { return height_; }

  void draw(Canvas& canvas) const {
    draw_frame(canvas);
    if (chart_.grid) {
      for (std::size_t i = 0; i < chart_.kinds.size(); ++i) {
        canvas.cells({left_, top_}, Grid::kCell, chart_.grid->runs(static_cast<std::uint32_t>(i)),
                     chart_.kinds[i].color);
      }
    }
    draw_bars(canvas);
    draw_lines(canvas);
    draw_axes(canvas);
    draw_legend(canvas);
  }

 private:
  static Scale scale_of(const Chart& chart, bool x) {
    const Axis& axis = x ? chart.x : chart.y;
    if (x && !chart.categories.empty())
      return Scale(Scale::Kind::linear, -0.5, static_cast<double>(chart.categories.size()) - 0.5);
    double least = std::numeric_limits<double>::infinity();
    double most = -least;
    for (const Series& series : chart.series) {
      if (!x && series.kind == Series::Kind::bars && axis.kind == Scale::Kind::linear) least = std::min(least, 0.0);
      for (const Point& point : series.points) {
        const double value = x ? point.x : point.y;
        if (!std::isfinite(value) || (axis.kind == Scale::Kind::log && value <= 0)) continue;
        least = std::min(least, value);
        most = std::max(most, value);
      }
    }
    const Scale found(axis.kind, axis.least.value_or(least), axis.most.value_or(most));
    // Time, or what else goes along the x axis, ends where it ends.
    const Scale round = x ? found : found.rounded(kTicks);
    return Scale(axis.kind, axis.least.value_or(round.least()), axis.most.value_or(round.most()));
  }
  [[nodiscard]] std::vector<Tick> ticks_of_x() const {
    if (chart_.categories.empty()) return chart_.x.ticks.empty() ? x_.ticks(kTicks + 2) : chart_.x.ticks;
    std::vector<Tick> ticks;
    for (std::size_t i = 0; i < chart_.categories.size(); ++i)
      ticks.push_back({static_cast<double>(i), chart_.categories[i]});
    return ticks;
  }
  [[nodiscard]] std::vector<Tick> ticks_of_y() const {
    return chart_.y.ticks.empty() ? y_.ticks(kTicks) : chart_.y.ticks;
  }
  [[nodiscard]] Color color_of(std::size_t series) const {
    return chart_.series[series].color.value_or(palette(series));
  }
  [[nodiscard]] double right() const { return left_ + inside_width_; }
  [[nodiscard]] double bottom() const { return top_ + inside_height_; }
  [[nodiscard]] double across(double x) const { return left_ + std::clamp(x_.place(x), 0.0, 1.0) * inside_width_; }
  [[nodiscard]] double up(double y) const { return bottom() - std::clamp(y_.place(y), 0.0, 1.0) * inside_height_; }

  void draw_frame(Canvas& canvas) const {
    double y = kMargin + Canvas::kLetterHeight;
    for (const std::string& text : {chart_.title, chart_.note}) {
      if (text.empty()) continue;
      canvas.text({kMargin, y}, text, Align::left);
      y += kLine;
    }
    for (const Tick& tick : y_ticks_) {
      const double at = crisp(up(tick.at));
      canvas.line(std::array{Point{left_, at}, Point{right(), at}}, 1, kGrey);
    }
  }
  void draw_axes(Canvas& canvas) const {
    for (const double at : chart_.y.breaks) {
      for (double x = left_; x < right(); x += 6) {
        canvas.line(std::array{Point{x, crisp(up(at))}, Point{std::min(x + 3, right()), crisp(up(at))}}, 1, kBlack);
      }
    }
    const double edge = left_ - 0.5;  // outside of what is drawn inside
    const double floor = bottom() + 0.5;
    canvas.line(std::array{Point{edge, top_}, Point{edge, floor}, Point{right(), floor}}, 1, kBlack);
    for (const Tick& tick : y_ticks_) {
      canvas.text({left_ - kTickGap, up(tick.at) + Canvas::kLetterHeight / 3}, tick.label, Align::right);
    }
    double free = 0;  // a label that has no room is left out
    for (const Tick& tick : x_ticks_) {
      const double x = across(tick.at);
      if (x - width_of(tick.label) / 2 < free) continue;
      free = x + width_of(tick.label) / 2 + kTickGap;
      if (chart_.categories.empty())
        canvas.line(std::array{Point{crisp(x), bottom()}, Point{crisp(x), bottom() + 4}}, 1, kBlack);
      canvas.text({x, bottom() + kLine}, tick.label, Align::middle);
    }
    if (!chart_.x.label.empty()) {
      canvas.text({(left_ + right()) / 2, bottom() + 2 * kLine}, chart_.x.label, Align::middle);
    }
    if (!chart_.y.label.empty()) {
      canvas.text({kMargin + Canvas::kLetterHeight, (top_ + bottom()) / 2}, chart_.y.label, Align::middle,
                  Turn::upwards);
    }
  }
  void draw_bars(Canvas& canvas) const {
    const auto is_bars = [](const Series& series) { return series.kind == Series::Kind::bars; };
    const auto count = std::count_if(chart_.series.begin(), chart_.series.end(), is_bars);
    const double room = inside_width_ / std::max<double>(1, static_cast<double>(chart_.categories.size())) * kBarShare;
    const double each = room / std::max<double>(1, static_cast<double>(count));
    double offset = -room / 2;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      if (!is_bars(chart_.series[i])) continue;
      for (const Point& point : chart_.series[i].points) {
        if (!std::isfinite(point.y)) continue;
        const double from = up(std::clamp(0.0, y_.least(), y_.most()));
        const double to = up(point.y);
        canvas.rectangle({across(point.x) + offset, std::min(from, to)}, each, std::abs(to - from), color_of(i));
      }
      offset += each;
    }
  }
  void draw_lines(Canvas& canvas) const {
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      if (chart_.series[i].kind != Series::Kind::line) continue;
      std::vector<Point> places;
      for (const Point& point : chart_.series[i].points) {
        if (std::isfinite(point.x) && std::isfinite(point.y)) places.push_back({across(point.x), up(point.y)});
      }
      canvas.line(places, kStroke, color_of(i));
      // Few points are measurements, and are shown.
      if (places.size() > 64) continue;
      for (const Point& place : places) canvas.rectangle({place.x - 2.5, place.y - 2.5}, 5, 5, color_of(i));
    }
  }
  void draw_legend(Canvas& canvas) const {
    double y = top_;
    for (const Entry& entry : legend_) {
      canvas.rectangle({right() + kMargin, y}, kMark, kMark, entry.color);
      canvas.text({right() + kMargin + kMark + kTickGap, y + kMark - 1}, entry.name, Align::left);
      y += kLine;
    }
  }

  const Chart& chart_;
  const Scale x_;
  const Scale y_;
  const std::vector<Tick> x_ticks_;
  const std::vector<Tick> y_ticks_;
  std::vector<Entry> legend_;
  double inside_width_ = 0;
  double inside_height_ = 0;
  double left_ = 0;
  double top_ = 0;
  double width_ = 0;
  double height_ = 0;
};

}  // namespace

Color palette(std::size_t index) {
  static constexpr std::array<Color, 8> kColors = {{{0, 114, 178},
                                                    {213, 94, 0},
                                                    {0, 158, 115},
                                                    {204, 121, 167},
                                                    {230, 159, 0},
                                                    {86, 180, 233},
                                                    {120, 120, 120},
                                                    {180, 170, 20}}};
  return kColors[index % kColors.size()];
}

std::string to_svg(const Chart& chart) {
  const Layout layout(chart);
  SvgCanvas canvas(layout.width(), layout.height());
  layout.draw(canvas);
  return std::move(canvas).finish();
}

Expected<std::string> to_png(const Chart& chart) {
  const Layout layout(chart);
  PixelCanvas canvas(static_cast<std::uint32_t>(layout.width()), static_cast<std::uint32_t>(layout.height()));
  layout.draw(canvas);
  return canvas.to_png();
}

}  // namespace comex::plot

#include "plot/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace comex::plot {
namespace {

constexpr double kSmallest = 1e-12;  // on a logarithmic scale
constexpr double kSlack = 1e-9;      // of a step: what rounding may have added

std::string label_of(double value) {
  return fmt::format("{:g}", value);
}

}  // namespace

Scale::Scale(Kind kind, double least, double most) : kind_(kind), least_(least), most_(most) {
  if (!std::isfinite(least_) || !std::isfinite(most_) || most_ < least_)
    least_ = kind == Kind::log ? 1 : 0, most_ = least_;
  if (kind_ == Kind::log) {
    least_ = std::max(least_, kSmallest);
    most_ = std::max(most_, least_);
    if (most_ == least_) most_ = least_ * 10;
  } else if (most_ == least_) {
    most_ = least_ + std::max(1.0, std::abs(least_));
  }
}

double Scale::place(double value) const {
  if (kind_ == Kind::linear) return (value - least_) / (most_ - least_);
  return std::log(std::max(value, kSmallest) / least_) / std::log(most_ / least_);
}

// 1, 2 or 5 times a power of ten.
double Scale::step(int about) const {
  const double raw = (most_ - least_) / about;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power * (1 + kSlack)) return factor * power;
  }
  return 10 * power;
}

std::vector<Tick> Scale::ticks(int about) const {
  std::vector<Tick> ticks;
  if (kind_ == Kind::linear) {
    const double each = step(about);
    const double first = std::ceil(least_ / each - kSlack);
    for (double i = first; i * each <= most_ + kSlack * each; ++i) {
      const double at = i * each;
      ticks.push_back({at, label_of(std::abs(at) < each * kSlack ? 0 : at)});
    }
    return ticks;
  }
  const bool few = most_ / least_ < 1000;
  for (double power = std::pow(10.0, std::floor(std::log10(least_))); power <= most_ * (1 + kSlack); power *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double at = factor * power;
      if ((few || factor == 1) && at >= least_ * (1 - kSlack) && at <= most_ * (1 + kSlack)) {
        ticks.push_back({at, label_of(at)});
      }
    }
  }
  return ticks;
}

Scale Scale::rounded(int about) const {
  if (kind_ == Kind::linear) {
    const double each = step(about);
    return Scale(kind_, std::floor(least_ / each + kSlack) * each, std::ceil(most_ / each - kSlack) * each);
  }
  const auto down = [](double value) { return std::pow(10.0, std::floor(std::log10(value))); };
  double least = down(least_);
  for (const double factor : {2.0, 5.0}) {
    if (down(least_) * factor <= least_ * (1 + kSlack)) least = down(least_) * factor;
  }
  double most = down(most_) * 10;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (down(most_) * factor >= most_ * (1 - kSlack)) most = down(most_) * factor;
  }
  return Scale(kind_, least, most);
}

}  // namespace comex::plot

#include "trace/address_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace comex {
namespace {

constexpr std::uint64_t kLeastGap = 1024;  // pages that are worth leaving out
constexpr std::uint64_t kGapShare = 50;    // ... or one in so many of what is shown
constexpr double kLeast = 0.02;            // of the axis, for a gap, and for a region however small
constexpr double kLeastOfAll = 0.3;        // ... and for all of them together

}  // namespace

AddressMap::AddressMap(std::vector<PageSpan> spans, std::uint32_t page_size) : page_size_(page_size) {
  std::sort(spans.begin(), spans.end(), [](const PageSpan& a, const PageSpan& b) { return a.first < b.first; });
  std::uint64_t all = 0;
  for (const PageSpan& span : spans) all += span.last - span.first + 1;
  const std::uint64_t gap = std::max(kLeastGap, all / kGapShare);
  double pages = 0;
  for (const PageSpan& span : spans) {
    if (regions_.empty() ||
        (span.first > regions_.back().pages.last && span.first - regions_.back().pages.last > gap)) {
      regions_.push_back({.pages = span});
    } else {
      regions_.back().pages.last = std::max(regions_.back().pages.last, span.last);
    }
  }
  for (const Region& region : regions_) pages += static_cast<double>(region.pages.last - region.pages.first + 1);
  const auto count = static_cast<double>(regions_.size());
  const double least = std::min(kLeast, kLeastOfAll / count);
  const double left = 1 - (count - 1) * least - count * least;
  double at = 0;
  for (Region& region : regions_) {
    region.from = at;
    region.to = at + least + left * static_cast<double>(region.pages.last - region.pages.first + 1) / pages;
    at = region.to + least;
  }
}

double AddressMap::place(std::uint64_t page) const {
  const auto after = std::upper_bound(regions_.begin(), regions_.end(), page,
                                      [](std::uint64_t at, const Region& region) { return at < region.pages.first; });
  if (after == regions_.begin()) return 0;
  const Region& region = *(after - 1);
  const double size = static_cast<double>(region.pages.last - region.pages.first + 1);
  return region.from + (region.to - region.from) * (static_cast<double>(page - region.pages.first) + 0.5) / size;
}

std::vector<plot::Tick> AddressMap::ticks(double apart) const {
  std::vector<plot::Tick> ticks;
  double free = -1;
  for (const Region& region : regions_) {
    if (region.from < free) continue;
    ticks.push_back({region.from, fmt::format("{:x}", region.pages.first * page_size_)});
    const double size = static_cast<double>(region.pages.last - region.pages.first + 1);
    const double each = (region.to - region.from) / size;  // of a page
    std::uint64_t step = 1;
    while (static_cast<double>(step) * each < 2 * apart) step *= 2;
    for (std::uint64_t at = step; region.from + static_cast<double>(at) * each <= region.to; at += step) {
      ticks.push_back({region.from + static_cast<double>(at) * each, "+" + format_size(at * page_size_)});
    }
    free = ticks.back().at + apart;
  }
  return ticks;
}

std::vector<double> AddressMap::breaks() const {
  std::vector<double> breaks;
  for (std::size_t i = 1; i < regions_.size(); ++i) breaks.push_back((regions_[i - 1].to + regions_[i].from) / 2);
  return breaks;
}

}  // namespace comex

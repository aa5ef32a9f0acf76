#include "trace/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/units.h"
#include "trace/address_map.h"

namespace comex {
namespace {

constexpr std::uint32_t kColumns = 480;
constexpr std::uint32_t kRows = 270;
constexpr double kLabelsApart = 0.03;
constexpr std::size_t kLongestTitle = 120;

struct Shown {
  Origin origin;
  plot::Color color;
};

// The dearer the later: where there are as many of two, the later is seen.
constexpr std::array<Shown, kOrigins - 1> kShown = {{{Origin::already, {190, 190, 190}},
                                                     {Origin::written, {204, 121, 167}},
                                                     {Origin::zeros, {86, 180, 233}},
                                                     {Origin::staged, {0, 158, 115}},
                                                     {Origin::buffered, {230, 159, 0}},
                                                     {Origin::remote, {213, 94, 0}},
                                                     {Origin::failed, {0, 0, 0}},
                                                     {Origin::lost, {0, 0, 0}}}};

class Dots final : public TraceVisitor {
 public:
  Dots(const TraceFilter& filter, std::uint64_t to, const AddressMap& map, plot::Grid& grid,
       const std::array<std::uint32_t, kOrigins>& kinds)
      : filter_(filter), to_(to), map_(map), grid_(grid), kinds_(kinds) {}

  void process(const TraceProcess& process) override {
    if (!filter_.pid || *filter_.pid == process.pid) {
      meant_.insert(process.number);
    } else {
      meant_.erase(process.number);
    }
  }
  void fault(const TraceFault& fault) override {
    if (!meant_.contains(fault.process) || fault.time < filter_.from || fault.time > to_) return;
    const auto length = static_cast<double>(std::max<std::uint64_t>(to_ - filter_.from, 1));
    grid_.add(static_cast<double>(fault.time - filter_.from) / length, map_.place(fault.page),
              kinds_[static_cast<std::size_t>(fault.origin)]);
  }

 private:
  const TraceFilter& filter_;
  const std::uint64_t to_;
  const AddressMap& map_;
  plot::Grid& grid_;
  const std::array<std::uint32_t, kOrigins>& kinds_;
  std::unordered_set<std::uint32_t> meant_;  // processes, by number
};

}  // namespace

Expected<plot::Chart> draw(const TraceReader& reader, const TraceFilter& filter, const TraceSummary& summary) {
  const TraceFigures figures = summary.figures();
  std::vector<PageSpan> spans;
  for (const TraceRegion& region : summary.regions) spans.push_back({region.first, region.last});
  const AddressMap map(std::move(spans), summary.header.page_size);
  plot::Chart chart;
  chart.title = summary.header.command.substr(0, kLongestTitle);
  chart.note =
      fmt::format("{} faults of {} process{} in {:.2f} s, {} local{}", figures.faults(), summary.processes.size(),
                  summary.processes.size() == 1 ? "" : "es",
                  in_seconds(summary.end - std::min(summary.end, filter.from)), format_size(summary.header.local),
                  summary.dropped() > 0 ? fmt::format("; {} more were dropped", summary.dropped()) : "");
  const std::uint64_t to = std::max(summary.end, filter.from);
  chart.x = {.label = "seconds", .least = in_seconds(filter.from), .most = in_seconds(to)};
  chart.y = {.label = "address", .least = 0, .most = 1, .ticks = map.ticks(kLabelsApart), .breaks = map.breaks()};
  std::array<std::uint32_t, kOrigins> kinds{};
  for (const Shown& shown : kShown) {
    const std::uint64_t count = figures.by_origin[static_cast<std::size_t>(shown.origin)];
    if (count == 0) continue;
    kinds[static_cast<std::size_t>(shown.origin)] = static_cast<std::uint32_t>(chart.kinds.size());
    chart.kinds.push_back({fmt::format("{}: {}", name_of(shown.origin), count), shown.color});
  }
  chart.grid.emplace(kColumns, kRows, std::max<std::uint32_t>(1, static_cast<std::uint32_t>(chart.kinds.size())));
  Dots dots(filter, to, map, *chart.grid, kinds);
  if (const auto read = reader.read(dots); !read) return read.error();
  return chart;
}

}  // namespace comex

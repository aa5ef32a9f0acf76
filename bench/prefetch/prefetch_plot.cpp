#include "bench/prefetch/prefetch_plot.h"

#include <functional>

#include "bench/paging/system.h"

namespace comex::bench {

namespace {

constexpr std::uint32_t kWidthPerProgram = 110;  // pixels: room for a name and a bar of each prefetcher

using Value = std::function<std::optional<double>(const PrefetchSeries&)>;

// What the bars of a group are called, and whose they are.
using Bars = std::vector<std::pair<std::string, Contestant>>;

Bars prefetchers_of(const PrefetchFigures& figures, const std::string& system) {
  Bars bars;
  for (const std::string& prefetch : figures.prefetchers) bars.push_back({prefetch, {system, prefetch}});
  return bars;
}

Bars evictors_of(const PrefetchFigures& figures, const std::string& system) {
  Bars bars;
  for (const std::string& evict : figures.evictors) bars.push_back({evict, {system, figures.usual, evict}});
  if (!bars.empty()) bars.push_back({figures.usual_evict, {system, figures.usual}});
  return bars;
}

// A group of bars for each program.
plot::Chart draw_bars(const PrefetchFigures& figures, const Bars& bars, const Value& value) {
  plot::Chart chart;
  for (const PrefetchProgram& program : figures.programs) chart.categories.push_back(program.name);
  chart.width = kWidthPerProgram * static_cast<std::uint32_t>(chart.categories.size());
  for (std::size_t number = 0; number < bars.size(); ++number) {
    const auto& [name, who] = bars[number];
    // The same color in all drawings, also in those that not all are in.
    plot::Series series{.name = name, .kind = plot::Series::Kind::bars, .color = plot::palette(number)};
    for (std::size_t i = 0; i < figures.programs.size(); ++i) {
      const PrefetchSeries* const found = figures.find(figures.programs[i].name, who);
      const auto height = found != nullptr ? value(*found) : std::nullopt;
      if (height) series.points.push_back({static_cast<double>(i), *height});
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

std::vector<plot::Drawing> draw(const PrefetchFigures& figures) {
  std::vector<plot::Drawing> plots;
  const auto add = [&](std::string name, std::string title, std::string label, const Bars& bars, const Value& value) {
    plot::Chart chart = draw_bars(figures, bars, value);
    if (chart.series.empty()) return;
    chart.title = std::move(title);
    chart.y.label = std::move(label);
    plots.push_back({std::move(name), std::move(chart)});
  };
  const auto beside_zram = [&](const PrefetchSeries& series) {
    return figures.ratio(series.program, series.who, {std::string(kPagingZram), ""});
  };
  const auto coverage = [&](const PrefetchSeries& series) {
    const auto share = series.who.prefetch == "none" ? std::nullopt : figures.coverage(series);
    return share ? std::optional(*share * 100) : std::nullopt;
  };
  const auto accuracy = [](const PrefetchSeries& series) {
    const auto share = series.counts ? series.counts->accuracy() : std::nullopt;
    return share ? std::optional(*share * 100) : std::nullopt;
  };
  for (const auto& [medium, system] : {std::pair("shm", kPagingShm), std::pair("tcp", kPagingTcp)}) {
    const std::string of = std::string(" over ") + medium;
    const Bars bars = prefetchers_of(figures, std::string(system));
    add(std::string("prefetch-time-") + medium, "comex run" + of + " beside zram", "time, zram = 1", bars, beside_zram);
    add(std::string("prefetch-coverage-") + medium, "Faults that need not go to the node," + of, "%", bars, coverage);
    add(std::string("prefetch-accuracy-") + medium, "Pages brought ahead that were used," + of, "%", bars, accuracy);
    add(std::string("evict-time-") + medium, "Eviction policies of comex run" + of + " beside zram", "time, zram = 1",
        evictors_of(figures, std::string(system)), beside_zram);
  }
  return plots;
}

}  // namespace comex::bench

#include "bench/prefetch/prefetch_plot.h"

#include <functional>

#include "bench/paging/system.h"

namespace comex::bench {

namespace {

constexpr std::uint32_t kWidthPerProgram = 110;  // pixels: room for a name and a bar of each prefetcher

using Value = std::function<std::optional<double>(const PrefetchSeries&)>;

// A group of bars for each program, a bar for each prefetcher.
plot::Chart bars(const PrefetchFigures& figures, const std::string& system, const Value& value) {
  plot::Chart chart;
  for (const PrefetchProgram& program : figures.programs) chart.categories.push_back(program.name);
  chart.width = kWidthPerProgram * static_cast<std::uint32_t>(chart.categories.size());
  for (std::size_t number = 0; number < figures.prefetchers.size(); ++number) {
    const std::string& prefetch = figures.prefetchers[number];
    // The same color in all drawings, also in those that not all are in.
    plot::Series series{.name = prefetch, .kind = plot::Series::Kind::bars, .color = plot::palette(number)};
    for (std::size_t i = 0; i < figures.programs.size(); ++i) {
      const PrefetchSeries* const found = figures.find(figures.programs[i].name, {system, prefetch});
      const auto height = found != nullptr ? value(*found) : std::nullopt;
      if (height) series.points.push_back({static_cast<double>(i), *height});
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

std::vector<Plot> draw(const PrefetchFigures& figures) {
  std::vector<Plot> plots;
  const auto add = [&](std::string name, std::string title, std::string label, std::string_view system,
                       const Value& value) {
    plot::Chart chart = bars(figures, std::string(system), value);
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
    add(std::string("prefetch-time-") + medium, "comex run" + of + " beside zram", "time, zram = 1", system,
        beside_zram);
    add(std::string("prefetch-coverage-") + medium, "Faults that need not go to the node," + of, "%", system, coverage);
    add(std::string("prefetch-accuracy-") + medium, "Pages brought ahead that were used," + of, "%", system, accuracy);
  }
  return plots;
}

}  // namespace comex::bench

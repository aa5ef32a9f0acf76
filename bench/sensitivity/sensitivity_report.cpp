#include "bench/sensitivity/sensitivity_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/units.h"
#include "bench/paging/system.h"
#include "bench/prefetch/contestants.h"
#include "bench/report_parts.h"

namespace comex::bench {

namespace {

using Json = nlohmann::ordered_json;

std::string_view heading(Sweep sweep) {
  switch (sweep) {
    case Sweep::threshold: return "T, frames kept at hand";
    case Sweep::prefetch: return "P, pages a fault brings";
    case Sweep::buffer: return "B, pages in the buffer";
    case Sweep::memory: return "local memory, %";
  }
  return "";
}

// A row for each program, a column for each value; `cell` says what is in it.
template <typename Cell>
std::string table(const SensitivityFigures& figures, Sweep sweep, std::string_view title, const Cell& cell) {
  const std::vector<unsigned> values = figures.values(sweep);
  if (values.empty()) return {};
  std::string text = fmt::format("{}\n  {:<24}", title, heading(sweep));
  for (const unsigned value : values) text += fmt::format("{:>14}", value);
  text += '\n';
  for (const SensitivityProgram& program : figures.programs) {
    text += fmt::format("  {:<24}", program.name);
    for (const unsigned value : values) text += fmt::format("{:>14}", cell(program.name, value));
    text += '\n';
  }
  return text + '\n';
}

std::string bound(bool at_least) {
  return at_least ? "> " : "";
}

std::string seconds(const SensitivityPoint* point) {
  return point != nullptr ? bound(point->at_least) + number(point->seconds) : "";
}

std::string size_table(const SensitivityFigures& figures, Sweep sweep) {
  const std::string title =
      fmt::format("seconds over TCP, {} % local, at least {}", figures.share, format_size(kLeastLocal));
  return table(figures, sweep, title, [&](const std::string& program, unsigned value) {
    return seconds(figures.find(sweep, program, kPagingTcp, value));
  });
}

std::string speed_table(const SensitivityFigures& figures, std::string_view system, std::string_view over) {
  return table(figures, Sweep::memory, fmt::format("speed-up of {} over {}", system, over),
               [&](const std::string& program, unsigned share) {
                 const auto times = figures.speed_up(program, system, over, share);
                 return times ? fmt::format("{}{} x", bound(times->at_least), number(times->times)) : "";
               });
}

std::string seconds_table(const SensitivityFigures& figures, std::string_view system) {
  return table(figures, Sweep::memory, fmt::format("seconds, {}", system),
               [&](const std::string& program, unsigned share) {
                 return seconds(figures.find(Sweep::memory, program, system, share));
               });
}

std::string fault_table(const SensitivityFigures& figures, std::string_view system) {
  const std::string title = fmt::format("faults of {}, thousands: from staging / read buffer / node", system);
  return table(figures, Sweep::memory, title, [&](const std::string& program, unsigned share) {
    const SensitivityPoint* const point = figures.find(Sweep::memory, program, system, share);
    if (point == nullptr || !point->counts) return std::string();
    const RunCounts& counts = *point->counts;
    return fmt::format("{}/{}/{}", counts.from_staging / 1000, counts.from_buffer / 1000, counts.from_node / 1000);
  });
}

plot::Chart lines(const SensitivityFigures& figures, Sweep sweep, std::string title, std::string label,
                  const std::function<std::optional<double>(const std::string&, unsigned)>& value) {
  plot::Chart chart;
  chart.title = std::move(title);
  chart.x.label = heading(sweep);
  if (sweep != Sweep::memory) chart.x.kind = plot::Scale::Kind::log;
  chart.y.label = std::move(label);
  for (const SensitivityProgram& program : figures.programs) {
    plot::Series series{.name = program.name};
    for (const unsigned at : figures.values(sweep)) {
      const auto y = value(program.name, at);
      if (y) series.points.push_back({static_cast<double>(at), *y});
    }
    if (series.points.size() > 1) chart.series.push_back(std::move(series));
  }
  return chart;
}

const SensitivityPoint* with_least_memory(const SensitivityFigures& figures, const std::string& program,
                                          std::string_view system) {
  for (const unsigned share : figures.values(Sweep::memory)) {
    const SensitivityPoint* const point = figures.find(Sweep::memory, program, system, share);
    if (point != nullptr && point->counts) return point;
  }
  return nullptr;
}

// Of each program with the least memory that it was measured with.
plot::Chart fault_bars(const SensitivityFigures& figures, std::string_view system) {
  plot::Chart chart;
  chart.title = fmt::format("Where faults are served, {}, least memory", system);
  chart.y.label = "% of faults";
  plot::Series staging{.name = "staging", .kind = plot::Series::Kind::bars};
  plot::Series buffer{.name = "read buffer", .kind = plot::Series::Kind::bars};
  plot::Series node{.name = "node", .kind = plot::Series::Kind::bars};
  for (const SensitivityProgram& program : figures.programs) {
    const SensitivityPoint* const point = with_least_memory(figures, program.name, system);
    if (point == nullptr || point->counts->faults() == 0) continue;
    const auto x = static_cast<double>(chart.categories.size());
    const auto percent = [&](std::uint64_t count) {
      return 100 * static_cast<double>(count) / static_cast<double>(point->counts->faults());
    };
    chart.categories.push_back(fmt::format("{} {} %", program.name, point->value));
    staging.points.push_back({x, percent(point->counts->from_staging)});
    buffer.points.push_back({x, percent(point->counts->from_buffer)});
    node.points.push_back({x, percent(point->counts->from_node)});
  }
  if (!chart.categories.empty()) chart.series = {std::move(staging), std::move(buffer), std::move(node)};
  chart.width = 110 * static_cast<std::uint32_t>(std::max<std::size_t>(chart.categories.size(), 4));
  return chart;
}

}  // namespace

std::string to_text(const SensitivityFigures& figures) {
  std::string text = fmt::format(
      "comex bench sensitivity: what sizes are worth, and memory. Prefetching by {}; what programs find is "
      "checked.\n\n",
      figures.prefetch);
  for (const SensitivityProgram& program : figures.programs) {
    text += fmt::format("  {:<24}wants {:>9}, {:>5} s with all of it\n", program.name, format_size(program.peak_bytes),
                        number(program.native_seconds));
  }
  text += '\n';
  for (const Sweep sweep : {Sweep::threshold, Sweep::prefetch, Sweep::buffer}) text += size_table(figures, sweep);
  for (const std::string_view system : {kPagingShm, kPagingTcp, kPagingZram, kPagingDisk}) {
    text += seconds_table(figures, system);
  }
  for (const std::string_view system : {kPagingShm, kPagingTcp}) {
    text += speed_table(figures, system, kPagingDisk) + speed_table(figures, system, kPagingZram);
  }
  for (const std::string_view system : {kPagingShm, kPagingTcp}) text += fault_table(figures, system);
  const auto is_bound = [](const SensitivityPoint& point) { return point.at_least; };
  if (std::any_of(figures.points.begin(), figures.points.end(), is_bound)) {
    text += "> : it was stopped then, or took so long with more memory and was not tried with less\n";
  }
  if (figures.interrupted) text += "interrupted: this is what had been measured\n";
  for (const Skipped& each : figures.failed) text += fmt::format("{} failed: {}\n", each.what, each.why);
  return text + note_lines(figures.skipped, figures.load_before);
}

Json to_json(const SensitivityFigures& figures) {
  auto programs = Json::array();
  for (const SensitivityProgram& program : figures.programs) {
    programs.push_back(
        {{"program", program.name}, {"wanted_bytes", program.peak_bytes}, {"native_seconds", program.native_seconds}});
  }
  auto points = Json::array();
  for (const SensitivityPoint& point : figures.points) {
    Json json{{"varied", to_string(point.sweep)},
              {"value", point.value},
              {"program", point.program},
              {"system", point.system},
              {"seconds", point.seconds}};
    if (point.at_least) json["at_least"] = true;
    if (point.counts) {
      json.update(Json{{"faults_from_staging", point.counts->from_staging},
                       {"faults_from_read_buffer", point.counts->from_buffer},
                       {"faults_from_node", point.counts->from_node}});
    }
    points.push_back(std::move(json));
  }
  return {{"bench", "sensitivity"},
          {"host", host_json()},
          {"load_before", figures.load_before},
          {"prefetch", figures.prefetch},
          {"local_percent", figures.share},
          {"programs", std::move(programs)},
          {"interrupted", figures.interrupted},
          {"figures", std::move(points)},
          {"failed", skipped_json(figures.failed)},
          {"skipped", skipped_json(figures.skipped)}};
}

std::vector<plot::Drawing> draw(const SensitivityFigures& figures) {
  std::vector<plot::Drawing> plots;
  const auto add = [&](std::string name, plot::Chart chart) {
    if (!chart.series.empty()) plots.push_back({std::move(name), std::move(chart)});
  };
  for (const Sweep sweep : {Sweep::threshold, Sweep::prefetch, Sweep::buffer}) {
    // Beside the first value, as programs differ by more than what is shown.
    add(fmt::format("sensitivity-{}", to_string(sweep)),
        lines(figures, sweep, fmt::format("Time by {}", heading(sweep)), "time, first = 1",
              [&](const std::string& program, unsigned value) -> std::optional<double> {
                const auto* const first = figures.find(sweep, program, kPagingTcp, figures.values(sweep).front());
                const auto* const point = figures.find(sweep, program, kPagingTcp, value);
                if (first == nullptr || point == nullptr || first->seconds <= 0) return std::nullopt;
                if (first->at_least || point->at_least) return std::nullopt;
                return point->seconds / first->seconds;
              }));
  }
  for (const auto& [medium, system] : {std::pair("shm", kPagingShm), std::pair("tcp", kPagingTcp)}) {
    for (const auto& [peer, over] : {std::pair("disk", kPagingDisk), std::pair("zram", kPagingZram)}) {
      plot::Chart chart =
          lines(figures, Sweep::memory, fmt::format("Speed-up of {} over {}", system, over), "times as fast",
                [&, system = system, over = over](const std::string& program, unsigned share) -> std::optional<double> {
                  const auto times = figures.speed_up(program, system, over, share);
                  return times && !times->at_least ? std::optional(times->times) : std::nullopt;
                });
      chart.y.kind = plot::Scale::Kind::log;
      add(fmt::format("sensitivity-memory-{}-{}", medium, peer), std::move(chart));
    }
    add(fmt::format("sensitivity-faults-{}", medium), fault_bars(figures, system));
  }
  return plots;
}

}  // namespace comex::bench

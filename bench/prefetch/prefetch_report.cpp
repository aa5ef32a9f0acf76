#include "bench/prefetch/prefetch_report.h"

#include <fmt/format.h>

#include "base/units.h"
#include "bench/paging/system.h"
#include "bench/report_parts.h"

namespace comex::bench {

namespace {

using Json = nlohmann::ordered_json;

const Contestant kZram{std::string(kPagingZram), ""};
const Contestant kDisk{std::string(kPagingDisk), ""};

// What every ratio of the tables is to. Kernels have no readahead of ours to be held against.
std::optional<Contestant> readahead_of(const Contestant& who) {
  if (who.prefetch.empty()) return std::nullopt;
  return Contestant{who.system, "readahead"};
}

std::string times(std::optional<double> ratio) {
  return ratio ? fmt::format("{:.2f} x", *ratio) : "";
}

std::string percent(std::optional<double> share) {
  return share ? fmt::format("{:.0f} %", *share * 100) : "";
}

std::string microseconds(std::optional<double> us) {
  return us ? number(*us) : "";
}

std::string row(const PrefetchFigures& figures, const PrefetchSeries& series) {
  const auto beside = [&](const std::optional<Contestant>& other) {
    return other && *other != series.who ? times(figures.ratio(series.program, series.who, *other)) : "";
  };
  std::string text = fmt::format("  {:<26}{:>8}{:>12}{:>9}{:>9}", series.who.text(), number(series.middle()),
                                 beside(readahead_of(series.who)), beside(kZram), beside(kDisk));
  if (series.counts) {
    const RunCounts& counts = *series.counts;
    text += fmt::format("{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}", counts.from_node, counts.from_buffer,
                        percent(figures.coverage(series)), percent(counts.accuracy()), counts.for_nothing(),
                        microseconds(counts.lead_p50), microseconds(counts.lead_p95));
  }
  while (text.ends_with(' ')) text.pop_back();
  return text + '\n';
}

std::string table(const PrefetchFigures& figures, const PrefetchProgram& program) {
  std::string text =
      fmt::format("{}: {} wanted, {} local; {} s with all of it\n", program.name, format_size(program.peak_bytes),
                  format_size(program.local_bytes), number(program.native_seconds));
  text += fmt::format("  {:<26}{:>8}{:>12}{:>9}{:>9}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}\n", "", "s",
                      ": readahead", ": zram", ": disk", "at node", "buffered", "coverage", "accuracy", "for nothing",
                      "lead p50", "p95, us");
  for (const Contestant& who : figures.contestants) {
    if (const PrefetchSeries* const series = figures.find(program.name, who)) text += row(figures, *series);
  }
  return text + '\n';
}

// null where there is none.
Json optional_json(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

Json series_json(const PrefetchFigures& figures, const PrefetchSeries& series) {
  const auto beside = [&](const std::optional<Contestant>& other) {
    return optional_json(other ? figures.ratio(series.program, series.who, *other) : std::nullopt);
  };
  auto rounds = Json::array();
  for (const auto& [round, seconds] : series.rounds) rounds.push_back(seconds);
  Json json{{"workload", series.program},
            {"system", series.who.system},
            {"prefetch", series.who.prefetch.empty() ? Json() : Json(series.who.prefetch)},
            {"evict", series.who.evict.empty() ? Json() : Json(series.who.evict)},
            {"seconds", series.middle()},
            {"rounds", std::move(rounds)},
            {"to_readahead", beside(readahead_of(series.who))},
            {"to_zram", beside(kZram)},
            {"to_disk", beside(kDisk)}};
  if (!series.counts) return json;
  const RunCounts& counts = *series.counts;
  json.update(Json{{"faults_from_staging", counts.from_staging},
                   {"faults_from_read_buffer", counts.from_buffer},
                   {"faults_from_node", counts.from_node},
                   {"seconds_in_faults", counts.fault_seconds},
                   {"coverage", optional_json(figures.coverage(series))},
                   {"accuracy", optional_json(counts.accuracy())},
                   {"pages_prefetched", counts.prefetched},
                   {"pages_for_nothing", counts.for_nothing()},
                   {"lead_us_p50", optional_json(counts.lead_p50)},
                   {"lead_us_p95", optional_json(counts.lead_p95)}});
  return json;
}

}  // namespace

std::string to_text(const PrefetchFigures& figures, const std::vector<Goal>& goals, bool colour) {
  std::string text = fmt::format(
      "comex bench prefetch: programs that want more memory than they may have; what they find is checked.\n"
      "Seconds are medians of {} round{}, in each of which the systems take turns (the disk: in the first only).\n"
      "comex run prefetches by {} and evicts by {} unless told otherwise. coverage: of the faults that go to the node\n"
      "without prefetching, those that do not; accuracy: of the pages brought ahead, those known to be used; lead:\n"
      "from asking to use, of pages in the read buffer.\n\n",
      figures.rounds, figures.rounds == 1 ? "" : "s", figures.usual, figures.usual_evict);
  for (const PrefetchProgram& program : figures.programs) text += table(figures, program);
  std::string notes;
  for (const Skipped& each : figures.failed) notes += fmt::format("{} failed: {}\n", each.what, each.why);
  notes += note_lines(figures.skipped, figures.load_before);
  if (!notes.empty()) text += notes + '\n';
  return text + goal_lines(goals, colour);
}

Json to_json(const PrefetchFigures& figures, const std::vector<Goal>& goals) {
  auto programs = Json::array();
  for (const PrefetchProgram& program : figures.programs) {
    programs.push_back({{"workload", program.name},
                        {"wanted_bytes", program.peak_bytes},
                        {"local_bytes", program.local_bytes},
                        {"native_seconds", program.native_seconds}});
  }
  auto list = Json::array();
  for (const PrefetchSeries& series : figures.series) list.push_back(series_json(figures, series));
  return {{"bench", "prefetch"},
          {"host", host_json()},
          {"load_before", figures.load_before},
          {"rounds", figures.rounds},
          {"usual_prefetch", figures.usual},
          {"usual_evict", figures.usual_evict},
          {"workloads", std::move(programs)},
          {"figures", std::move(list)},
          {"failed", skipped_json(figures.failed)},
          {"skipped", skipped_json(figures.skipped)},
          {"goals", goals_json(goals)}};
}

}  // namespace comex::bench

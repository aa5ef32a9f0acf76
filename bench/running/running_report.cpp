#include "bench/running/running_report.h"

#include <fmt/format.h>

#include "bench/report_parts.h"
#include "bench/running/workload.h"

namespace comex::bench {

namespace {

struct Promise {
  std::string_view name;  // of the workload
  Mode mode;
  enum class Kind : std::uint8_t { at_most, at_least, more_by } kind;
  double limit;
};

constexpr Promise kPromises[] = {
    {kStartAlone, Mode::dormant, Promise::Kind::more_by, 3},  {kStartInPool, Mode::dormant, Promise::Kind::more_by, 3},
    {kStartEach, Mode::dormant, Promise::Kind::more_by, 3},   {kComputes, Mode::dormant, Promise::Kind::at_most, 1.01},
    {kPython, Mode::dormant, Promise::Kind::at_most, 1.01},   {kMake, Mode::dormant, Promise::Kind::at_most, 1.05},
    {kFirstTouch, Mode::armed, Promise::Kind::at_most, 1.20}, {kRedisSet, Mode::armed, Promise::Kind::at_least, 0.95},
    {kRedisGet, Mode::armed, Promise::Kind::at_least, 0.95},
};

std::string wanted(const Promise& promise) {
  switch (promise.kind) {
    case Promise::Kind::at_most: return fmt::format("at most {:.2f} x native", promise.limit);
    case Promise::Kind::at_least: return fmt::format("at least {:.2f} x native", promise.limit);
    case Promise::Kind::more_by: return fmt::format("at most {:g} ms more", promise.limit);
  }
  return "";
}

Goal judge_one(const RunningFigures& figures, const Promise& promise) {
  Goal goal{fmt::format("{}: {}", to_string(promise.mode), promise.name),
            wanted(promise),
            "not measured",
            0,
            promise.limit,
            {}};
  const RunningSeries* const series = figures.find(promise.name);
  const bool more_by = promise.kind == Promise::Kind::more_by;
  if (series == nullptr) return goal;
  const auto value = more_by ? series->difference(promise.mode) : series->ratio(promise.mode);
  if (!value) return goal;
  goal.value = *value;
  goal.met = promise.kind == Promise::Kind::at_least ? *value >= promise.limit : *value <= promise.limit;
  goal.figure = more_by ? fmt::format("{:.2f} ms", *value) : fmt::format("{:.3f} x", *value);
  return goal;
}

std::string row(const RunningSeries& series) {
  if (!series.has(Mode::native)) return "";
  std::string text = fmt::format("  {:<26}{:<4}", series.name, series.unit);
  for (const Mode mode : kModes) text += fmt::format("{:>10}", number(series.middle(mode)));
  for (const Mode mode : {Mode::dormant, Mode::armed}) {
    text += fmt::format("{:>12} x", fmt::format("{:.3f}", series.ratio(mode).value_or(0)));
  }
  return text + '\n';
}

}  // namespace

std::vector<Goal> judge(const RunningFigures& figures) {
  std::vector<Goal> goals;
  for (const Promise& promise : kPromises) goals.push_back(judge_one(figures, promise));
  return goals;
}

std::string to_text(const RunningFigures& figures, const std::vector<Goal>& goals, bool colour) {
  std::string text = fmt::format(
      "comex bench run: programs that fit into their memory, by themselves and under `comex run`.\n"
      "Medians of {} round{}, in each of which the modes take turns. dormant: far from the budget; armed: watched as\n"
      "they would be near it.\n\n{:<32}{:>10}{:>10}{:>10}{:>14}{:>14}\n",
      figures.rounds, figures.rounds == 1 ? "" : "s", "", "native", "dormant", "armed", "dormant", "armed");
  for (const RunningSeries& series : figures.series) text += row(series);
  std::string notes;
  for (const Skipped& each : figures.failed) notes += fmt::format("{} failed: {}\n", each.what, each.why);
  notes += note_lines(figures.skipped, figures.load_before);
  text += '\n';
  if (!notes.empty()) text += notes + '\n';
  return text + goal_lines(goals, colour);
}

nlohmann::ordered_json to_json(const RunningFigures& figures, const std::vector<Goal>& goals) {
  auto list = nlohmann::ordered_json::array();
  for (const RunningSeries& series : figures.series) {
    for (const Mode mode : kModes) {
      if (!series.has(mode)) continue;
      list.push_back({{"workload", series.name},
                      {"unit", series.unit},
                      {"mode", to_string(mode)},
                      {"figure", series.middle(mode)},
                      {"to_native", series.ratio(mode).value_or(1)},
                      {"rounds", series.rounds.at(mode)}});
    }
  }
  return {{"bench", "run"},
          {"host", host_json()},
          {"load_before", figures.load_before},
          {"rounds", figures.rounds},
          {"figures", std::move(list)},
          {"failed", skipped_json(figures.failed)},
          {"skipped", skipped_json(figures.skipped)},
          {"goals", goals_json(goals)}};
}

}  // namespace comex::bench

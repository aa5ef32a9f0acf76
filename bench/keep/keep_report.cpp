#include "bench/keep/keep_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "bench/report_parts.h"

namespace comex::bench {

namespace {

const std::vector<double>* find(const KeepFigures& figures, const KeepMetric& metric, Keeping keeping) {
  const auto found = figures.values.find(metric.name);
  if (found == figures.values.end()) return nullptr;
  const auto values = found->second.find(keeping);
  return values == found->second.end() || values->second.empty() ? nullptr : &values->second;
}

struct Promise {
  const KeepMetric& metric;
  Keeping keeping;
  double limit;
  enum class Of : std::uint8_t { longest, middle, ratio } of;
};

constexpr Promise kPromises[] = {
    {kFill, Keeping::two_copies, 1.7, Promise::Of::ratio},
    {kHeldFilled, Keeping::coded, 1.3, Promise::Of::middle},
    {kPauseStopped, Keeping::two_copies, 2'000, Promise::Of::longest},
    {kPauseKilled, Keeping::two_copies, 2'000, Promise::Of::longest},
    {kPauseStopped, Keeping::coded, 2'000, Promise::Of::longest},
    {kPauseKilled, Keeping::coded, 2'000, Promise::Of::longest},
};

Goal judge_one(const KeepFigures& figures, const Promise& promise) {
  const bool ratio = promise.of == Promise::Of::ratio;
  const std::string unit = ratio ? "x one copy" : std::string(promise.metric.unit);
  Goal goal{fmt::format("{}: {}", to_string(promise.keeping), promise.metric.name),
            fmt::format("at most {:g} {}", promise.limit, unit),
            "not measured",
            0,
            promise.limit,
            {}};
  const auto value = ratio                                ? figures.ratio(promise.metric, promise.keeping)
                     : promise.of == Promise::Of::longest ? figures.longest(promise.metric, promise.keeping)
                                                          : figures.middle(promise.metric, promise.keeping);
  if (!value) return goal;
  goal.value = *value;
  goal.met = *value <= promise.limit;
  goal.figure = fmt::format("{} {}", number(*value), ratio ? "x" : unit);
  return goal;
}

std::string row(const KeepFigures& figures, const KeepMetric& metric) {
  std::string text = fmt::format("  {:<30}{:<8}", metric.name, metric.unit);
  for (const Keeping keeping : kKeepings) {
    const auto middle = figures.middle(metric, keeping);
    text += fmt::format("{:>14}", middle ? number(*middle) : "-");
  }
  for (const Keeping keeping : {Keeping::two_copies, Keeping::coded}) {
    const auto ratio = metric.unit == kFill.unit ? figures.ratio(metric, keeping) : std::nullopt;
    text += fmt::format("{:>14}", ratio ? fmt::format("{:.2f} x", *ratio) : "");
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + '\n';
}

}  // namespace

std::string_view to_string(Keeping keeping) {
  switch (keeping) {
    case Keeping::one_copy: return "one copy";
    case Keeping::two_copies: return "--replicas 2";
    case Keeping::coded: return "--code 4+1";
  }
  return "";
}

std::optional<double> KeepFigures::middle(const KeepMetric& metric, Keeping keeping) const {
  const auto* const found = find(*this, metric, keeping);
  return found == nullptr ? std::nullopt : std::optional(median(*found));
}

std::optional<double> KeepFigures::longest(const KeepMetric& metric, Keeping keeping) const {
  const auto* const found = find(*this, metric, keeping);
  return found == nullptr ? std::nullopt : std::optional(*std::max_element(found->begin(), found->end()));
}

std::optional<double> KeepFigures::ratio(const KeepMetric& metric, Keeping keeping) const {
  const auto* const its = find(*this, metric, keeping);
  const auto* const plain = find(*this, metric, Keeping::one_copy);
  if (its == nullptr || plain == nullptr || its->size() != plain->size()) return std::nullopt;
  std::vector<double> ratios;
  for (std::size_t round = 0; round < its->size(); ++round) ratios.push_back((*its)[round] / (*plain)[round]);
  return median(std::move(ratios));
}

std::vector<Goal> judge(const KeepFigures& figures) {
  std::vector<Goal> goals;
  for (const Promise& promise : kPromises) goals.push_back(judge_one(figures, promise));
  return goals;
}

std::string to_text(const KeepFigures& figures, const std::vector<Goal>& goals, bool colour) {
  std::string text = fmt::format(
      "comex bench keep: a program of {} with {} local, on {} memory nodes of this machine, over TCP.\n"
      "Medians of {} round{}; of waits the goals judge the longest. Ratios, within rounds, to one copy. held: frames "
      "of\n"
      "nodes for each page of the program that is there.\n\n"
      "  {:<38}{:>14}{:>14}{:>14}{:>14}{:>14}\n",
      format_size(figures.set_bytes), format_size(figures.local_bytes), figures.nodes, figures.rounds,
      figures.rounds == 1 ? "" : "s", "", "one copy", "--replicas 2", "--code 4+1", "--replicas 2", "--code 4+1");
  for (const KeepMetric& metric : kKeepMetrics) text += row(figures, metric);
  std::string notes;
  for (const Skipped& each : figures.failed) notes += fmt::format("{} failed: {}\n", each.what, each.why);
  notes += note_lines({}, figures.load_before);
  text += '\n';
  if (!notes.empty()) text += notes + '\n';
  return text + goal_lines(goals, colour);
}

nlohmann::ordered_json to_json(const KeepFigures& figures, const std::vector<Goal>& goals) {
  auto list = nlohmann::ordered_json::array();
  for (const KeepMetric& metric : kKeepMetrics) {
    for (const Keeping keeping : kKeepings) {
      const auto* const values = find(figures, metric, keeping);
      if (values == nullptr) continue;
      list.push_back({{"metric", metric.name},
                      {"unit", metric.unit},
                      {"keeping", to_string(keeping)},
                      {"figure", median(*values)},
                      {"rounds", *values}});
    }
  }
  return {{"bench", "keep"},
          {"host", host_json()},
          {"load_before", figures.load_before},
          {"set_bytes", figures.set_bytes},
          {"local_bytes", figures.local_bytes},
          {"nodes", figures.nodes},
          {"rounds", figures.rounds},
          {"figures", std::move(list)},
          {"failed", skipped_json(figures.failed)},
          {"goals", goals_json(goals)}};
}

}  // namespace comex::bench

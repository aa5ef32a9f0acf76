#include "bench/evict/evict_report.h"

#include <fmt/format.h>

#include "base/units.h"
#include "bench/report_parts.h"
#include "bench/samples.h"

namespace comex::bench {

namespace {

std::string times_best(double missed, std::uint64_t best) {
  return best > 0 ? fmt::format("{:.2f} x", missed / static_cast<double>(best)) : "-";
}

std::string rows(const EvictString& string) {
  std::string text =
      fmt::format("  {:<12}{:<10}{:>10}{:>10}{:>12}\n", string.name, "best", string.best, times_best(1, 1), "");
  for (const EvictSeries& series : string.policies) {
    if (series.missed.empty()) continue;
    const double missed = median(series.missed);
    text += fmt::format("  {:<12}{:<10}{:>10.0f}{:>10}{:>12.2f}\n", "", series.policy, missed,
                        times_best(missed, string.best), median(series.us));
  }
  return text;
}

}  // namespace

std::string to_text(const EvictFigures& figures) {
  std::string text = fmt::format(
      "comex bench evict: how often a page was missed that had been there, with {} local, by eviction policy, and how\n"
      "often it had to be: \"best\" knows the future. Nothing is prefetched. Medians of {} round{}.\n\n  "
      "{:<22}{:>10}{:>10}{:>12}\n",
      format_size(figures.local_bytes), figures.rounds, figures.rounds == 1 ? "" : "s", "", "missed", "to best",
      "us each use");
  for (const EvictString& string : figures.strings) text += rows(string);
  std::string notes;
  for (const Skipped& each : figures.failed) notes += fmt::format("{} failed: {}\n", each.what, each.why);
  notes += note_lines({}, figures.load_before);
  return notes.empty() ? text : text + '\n' + notes;
}

nlohmann::ordered_json to_json(const EvictFigures& figures) {
  auto strings = nlohmann::ordered_json::array();
  for (const EvictString& string : figures.strings) {
    auto policies = nlohmann::ordered_json::array();
    for (const EvictSeries& series : string.policies) {
      if (series.missed.empty()) continue;
      policies.push_back({{"policy", series.policy},
                          {"missed", median(series.missed)},
                          {"us", median(series.us)},
                          {"missed_by_round", series.missed},
                          {"us_by_round", series.us}});
    }
    strings.push_back({{"references", string.name},
                       {"pages", string.pages},
                       {"length", string.length},
                       {"best", string.best},
                       {"policies", std::move(policies)}});
  }
  return {{"bench", "evict"},
          {"host", host_json()},
          {"load_before", figures.load_before},
          {"rounds", figures.rounds},
          {"local_bytes", figures.local_bytes},
          {"strings", std::move(strings)},
          {"failed", skipped_json(figures.failed)}};
}

std::vector<plot::Drawing> draw(const EvictFigures& figures) {
  plot::Chart chart;
  chart.title = fmt::format("Pages missed, by eviction policy, {} local", format_size(figures.local_bytes));
  chart.y.label = "missed, best possible = 1";
  for (const EvictString& string : figures.strings) {
    const auto x = static_cast<double>(chart.categories.size());
    chart.categories.push_back(string.name);
    for (std::size_t i = 0; i < string.policies.size(); ++i) {
      const EvictSeries& policy = string.policies[i];
      if (chart.series.size() == i) chart.series.push_back({.name = policy.policy, .kind = plot::Series::Kind::bars});
      if (policy.missed.empty() || string.best == 0) continue;
      chart.series[i].points.push_back({x, median(policy.missed) / static_cast<double>(string.best)});
    }
  }
  if (chart.series.empty()) return {};
  return {{"evict-missed", std::move(chart)}};
}

}  // namespace comex::bench

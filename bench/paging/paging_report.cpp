#include "bench/paging/paging_report.h"

#include <fmt/format.h>

#include "base/units.h"
#include "bench/paging/system.h"
#include "bench/report_parts.h"

namespace comex::bench {

namespace {

// Which ratios say something.
struct Comparison {
  std::string_view above;
  std::string_view below;
};
constexpr Comparison kComparisons[] = {{kPagingShm, kPagingZram},  {kPagingTcp, kPagingZram},
                                       {kPagingTcp, kPagingDisk},  {kPagingRdma, kPagingZram},
                                       {kPagingRdma, kPagingDisk}, {kPagingZram, kPagingDisk}};

std::string_view heading(std::string_view column) {
  if (column == "stride10") return "every 10th";
  if (column == "random-write") return "30 % written";
  return column;
}

std::string plural(unsigned count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Empty when the system has no figures.
std::string system_row(const PagingFigures& figures, std::string_view system, unsigned threads) {
  std::string cells;
  std::size_t rounds = 0;
  for (const std::string_view column : kPagingColumns) {
    const PagingSeries* series = figures.find(system, column, threads);
    if (series == nullptr) return {};
    cells += fmt::format("{:>14}", number(series->middle()));
    rounds = series->rounds.size();
  }
  return fmt::format("  {:<22}{}{:>8}\n", system, cells, rounds);
}

std::string ratio_row(const PagingFigures& figures, const Comparison& comparison, unsigned threads) {
  std::string cells;
  for (const std::string_view column : kPagingColumns) {
    const auto ratio = figures.ratio(comparison.above, comparison.below, column, threads);
    if (!ratio) return {};
    cells += fmt::format("{:>12} x", number(*ratio));
  }
  return fmt::format("  {:<22} {}\n", fmt::format("{} : {}", comparison.above, comparison.below), cells);
}

std::string table(const PagingFigures& figures, unsigned threads) {
  std::string text = fmt::format("{:<24}", fmt::format("us per page, {}", plural(threads, "thread")));
  for (const std::string_view column : kPagingColumns) text += fmt::format("{:>14}", heading(column));
  text += fmt::format("{:>8}\n", "rounds");
  for (const std::string& system : figures.systems) text += system_row(figures, system, threads);
  for (const Comparison& comparison : kComparisons) text += ratio_row(figures, comparison, threads);
  return text;
}

nlohmann::ordered_json series_json(const PagingFigures& figures) {
  auto list = nlohmann::ordered_json::array();
  for (const PagingSeries& series : figures.series) {
    auto rounds = nlohmann::ordered_json::array();
    for (const auto& [round, us] : series.rounds) rounds.push_back(us);
    list.push_back({{"system", series.system},
                    {"pattern", series.column},
                    {"threads", series.threads},
                    {"us_per_page", series.middle()},
                    {"rounds", std::move(rounds)}});
  }
  return list;
}

nlohmann::ordered_json ratios_json(const PagingFigures& figures) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [above, below] : kComparisons) {
    for (const unsigned threads : kPagingThreads) {
      for (const std::string_view column : kPagingColumns) {
        if (const auto ratio = figures.ratio(above, below, column, threads)) {
          list.push_back(
              {{"system", above}, {"to", below}, {"pattern", column}, {"threads", threads}, {"ratio", *ratio}});
        }
      }
    }
  }
  return list;
}

}  // namespace

std::string to_text(const PagingFigures& figures, const std::vector<Goal>& goals, bool colour) {
  std::string text = fmt::format(
      "comex bench paging: {} touched, {} local, every page checked.\n"
      "Medians of up to {}, in each of which the systems take turns; the slow ones sit some out.\n\n",
      format_size(figures.set_bytes), format_size(figures.local_bytes), plural(figures.rounds, "round"));
  if (!figures.series.empty()) {
    for (const unsigned threads : kPagingThreads) text += table(figures, threads) + '\n';
  }
  std::string notes;
  for (const Skipped& system : figures.failed) notes += fmt::format("{} failed: {}\n", system.what, system.why);
  notes += note_lines(figures.skipped, figures.load_before);
  if (!notes.empty()) text += notes + '\n';
  return text + goal_lines(goals, colour);
}

nlohmann::ordered_json to_json(const PagingFigures& figures, const std::vector<Goal>& goals) {
  return {{"bench", "paging"},
          {"host", host_json()},
          {"load_before", figures.load_before},
          {"rounds", figures.rounds},
          {"set_bytes", figures.set_bytes},
          {"local_bytes", figures.local_bytes},
          {"figures", series_json(figures)},
          {"ratios", ratios_json(figures)},
          {"failed", skipped_json(figures.failed)},
          {"skipped", skipped_json(figures.skipped)},
          {"goals", goals_json(goals)}};
}

}  // namespace comex::bench

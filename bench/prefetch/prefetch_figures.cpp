#include "bench/prefetch/prefetch_figures.h"

#include <algorithm>

#include "bench/samples.h"

namespace comex::bench {

namespace {

auto same(std::string_view program, const Contestant& who) {
  return [=](const PrefetchSeries& series) { return series.program == program && series.who == who; };
}

}  // namespace

std::string Contestant::text() const {
  std::string text = system;
  for (const std::string& choice : {prefetch, evict}) {
    if (!choice.empty()) text += ", " + choice;
  }
  return text;
}

double PrefetchSeries::middle() const {
  std::vector<double> values;
  for (const auto& [round, seconds] : rounds) values.push_back(seconds);
  return median(std::move(values));
}

PrefetchSeries& PrefetchFigures::at(std::string_view program, const Contestant& who) {
  const auto found = std::find_if(series.begin(), series.end(), same(program, who));
  if (found != series.end()) return *found;
  return series.emplace_back(PrefetchSeries{std::string(program), who, {}, {}});
}

const PrefetchSeries* PrefetchFigures::find(std::string_view program, const Contestant& who) const {
  const auto found = std::find_if(series.begin(), series.end(), same(program, who));
  return found == series.end() ? nullptr : &*found;
}

std::optional<double> PrefetchFigures::ratio(std::string_view program, const Contestant& a, const Contestant& b) const {
  const PrefetchSeries* const above = find(program, a);
  const PrefetchSeries* const below = find(program, b);
  if (above == nullptr || below == nullptr) return std::nullopt;
  std::vector<double> ratios;
  for (const auto& [round, seconds] : above->rounds) {
    const auto other = below->rounds.find(round);
    if (other != below->rounds.end() && other->second > 0) ratios.push_back(seconds / other->second);
  }
  if (ratios.empty()) return std::nullopt;
  return median(std::move(ratios));
}

std::optional<double> PrefetchFigures::coverage(const PrefetchSeries& of) const {
  const PrefetchSeries* const without = find(of.program, {of.who.system, "none", of.who.evict});
  if (without == nullptr || !without->counts || !of.counts) return std::nullopt;
  return of.counts->coverage(*without->counts);
}

}  // namespace comex::bench

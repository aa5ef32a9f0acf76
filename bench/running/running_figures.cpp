#include "bench/running/running_figures.h"

#include <algorithm>
#include <functional>

#include "bench/samples.h"

namespace comex::bench {

namespace {

std::optional<double> by_round(const RunningSeries& series, Mode mode,
                               const std::function<double(double, double)>& compare) {
  if (!series.has(mode) || !series.has(Mode::native)) return std::nullopt;
  const std::vector<double>& mine = series.rounds.at(mode);
  const std::vector<double>& native = series.rounds.at(Mode::native);
  std::vector<double> compared(std::min(mine.size(), native.size()));
  std::ranges::transform(mine, native, compared.begin(), compare);
  return median(std::move(compared));
}

}  // namespace

std::string_view to_string(Mode mode) {
  switch (mode) {
    case Mode::native: return "native";
    case Mode::dormant: return "dormant";
    case Mode::armed: return "armed";
  }
  return "?";
}

double RunningSeries::middle(Mode mode) const {
  return has(mode) ? median(rounds.at(mode)) : 0;
}

std::optional<double> RunningSeries::ratio(Mode mode) const {
  return by_round(*this, mode, std::divides<>());
}

std::optional<double> RunningSeries::difference(Mode mode) const {
  return by_round(*this, mode, std::minus<>());
}

const RunningSeries* RunningFigures::find(std::string_view name) const {
  const auto found = std::ranges::find(series, name, &RunningSeries::name);
  return found == series.end() ? nullptr : &*found;
}

}  // namespace comex::bench

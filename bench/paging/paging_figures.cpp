#include "bench/paging/paging_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "bench/samples.h"

namespace comex::bench {

namespace {

constexpr double kTolerance = 1.1;  // of the limit on local memory

auto same(std::string_view system, std::string_view column, unsigned threads) {
  return [=](const PagingSeries& series) {
    return series.system == system && series.column == column && series.threads == threads;
  };
}

}  // namespace

double PagingSeries::middle() const {
  std::vector<double> values;
  for (const auto& [round, us] : rounds) values.push_back(us);
  return median(std::move(values));
}

void PagingFigures::add(std::string_view system, std::string_view column, unsigned threads, unsigned round, double us) {
  auto found = std::find_if(series.begin(), series.end(), same(system, column, threads));
  if (found == series.end()) {
    found = series.insert(found, PagingSeries{std::string(system), std::string(column), threads, {}});
  }
  found->rounds[round] = us;
}

const PagingSeries* PagingFigures::find(std::string_view system, std::string_view column, unsigned threads) const {
  const auto found = std::find_if(series.begin(), series.end(), same(system, column, threads));
  return found == series.end() ? nullptr : &*found;
}

std::optional<double> PagingFigures::ratio(std::string_view a, std::string_view b, std::string_view column,
                                           unsigned threads) const {
  const PagingSeries* above = find(a, column, threads);
  const PagingSeries* below = find(b, column, threads);
  if (above == nullptr || below == nullptr) return std::nullopt;
  std::vector<double> ratios;
  for (const auto& [round, us] : above->rounds) {
    const auto other = below->rounds.find(round);
    if (other != below->rounds.end() && other->second > 0) ratios.push_back(us / other->second);
  }
  if (ratios.empty()) return std::nullopt;
  return median(std::move(ratios));
}

Expected<std::map<std::string, double>> parse_load_line(const std::string& line, std::uint64_t local_bytes) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  const Error unreadable{Errc::io, fmt::format("it printed '{}' instead of figures", line.substr(0, 60))};
  if (!json.is_object() || !json.value("passes", nlohmann::json()).is_array()) return unreadable;
  if (const auto wrong = json.value("pages_wrong", std::uint64_t{1}); wrong > 0) {
    return Error{Errc::io, fmt::format("{} pages were wrong", wrong)};
  }
  const std::uint64_t resident = json.value("pages_resident", std::uint64_t{0}) * kPageSize;
  if (static_cast<double>(resident) > static_cast<double>(local_bytes) * kTolerance) {
    return Error{Errc::io, fmt::format("{} of the pages were local in the end, {} are allowed: it does not page",
                                       format_size(resident), format_size(local_bytes))};
  }
  std::map<std::string, double> figures{{"fill", json.value("fill_us", 0.0)}};
  for (const auto& pass : json["passes"]) {
    if (!pass.is_object()) return unreadable;
    figures[pass.value("pattern", "")] = pass.value("us", 0.0);
  }
  for (const std::string_view column : kPagingColumns) {
    if (!figures.contains(std::string(column))) return unreadable;
  }
  return figures;
}

}  // namespace comex::bench

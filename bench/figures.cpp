#include "bench/figures.h"

namespace comex::bench {

namespace {

template <typename Series, typename Matches>
Series* find_in(std::vector<Series>& all, Matches matches) {
  const auto found = std::find_if(all.begin(), all.end(), matches);
  return found == all.end() ? nullptr : &*found;
}

auto same(std::string_view system, const Latency& what) {
  return [=](const LatencySeries& series) {
    return series.system == system && series.what.direction == what.direction && series.what.pages == what.pages;
  };
}

auto same(std::string_view system, Direction direction, unsigned threads) {
  return [=](const ThroughputSeries& series) {
    return series.system == system && series.direction == direction && series.threads == threads;
  };
}

template <typename Round, typename Value>
std::optional<double> median_ratio(const std::vector<Round>& a, const std::vector<Round>& b, Value value) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (value(b[i]) > 0) ratios.push_back(value(a[i]) / value(b[i]));
  }
  if (ratios.empty()) return std::nullopt;
  return median(std::move(ratios));
}

}  // namespace

Summary LatencySeries::middle() const {
  std::vector<double> p50, p99, mean;
  std::size_t count = 0;
  for (const Summary& round : rounds) {
    p50.push_back(round.p50);
    p99.push_back(round.p99);
    mean.push_back(round.mean);
    count += round.count;
  }
  return Summary{median(std::move(p50)), median(std::move(p99)), median(std::move(mean)), count};
}

void Figures::add(std::string_view system, const Latency& what, const Summary& summary) {
  LatencySeries* series = find_in(latency, same(system, what));
  if (series == nullptr) series = &latency.emplace_back(LatencySeries{std::string(system), what, {}});
  series->rounds.push_back(summary);
}

void Figures::add(std::string_view system, Direction direction, unsigned threads, double bytes_per_second) {
  ThroughputSeries* series = find_in(throughput, same(system, direction, threads));
  if (series == nullptr) {
    series = &throughput.emplace_back(ThroughputSeries{std::string(system), direction, threads, {}});
  }
  series->rounds.push_back(bytes_per_second);
}

const LatencySeries* Figures::find(std::string_view system, const Latency& what) const {
  const auto found = std::find_if(latency.begin(), latency.end(), same(system, what));
  return found == latency.end() ? nullptr : &*found;
}

const ThroughputSeries* Figures::find(std::string_view system, Direction direction, unsigned threads) const {
  const auto found = std::find_if(throughput.begin(), throughput.end(), same(system, direction, threads));
  return found == throughput.end() ? nullptr : &*found;
}

std::optional<double> Figures::ratio(std::string_view a, std::string_view b, const Latency& what) const {
  const LatencySeries* above = find(a, what);
  const LatencySeries* below = find(b, what);
  if (above == nullptr || below == nullptr) return std::nullopt;
  return median_ratio(above->rounds, below->rounds, [](const Summary& round) { return round.p50; });
}

std::optional<double> Figures::ratio(std::string_view a, std::string_view b, Direction direction,
                                     unsigned threads) const {
  const ThroughputSeries* above = find(a, direction, threads);
  const ThroughputSeries* below = find(b, direction, threads);
  if (above == nullptr || below == nullptr) return std::nullopt;
  return median_ratio(above->rounds, below->rounds, [](double round) { return round; });
}

}  // namespace comex::bench

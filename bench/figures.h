// What a run of `comex bench pool` found: every figure of every round, by system.
//
// Times drift on a shared machine from one second to the next, so a figure is the median of the rounds, and a ratio is
// taken within each round first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure.h"
#include "bench/samples.h"

namespace comex::bench {

struct LatencySeries {
  std::string system;
  Latency what;
  std::vector<Summary> rounds;

  [[nodiscard]] Summary middle() const;  // of p50s, p99s and means; count is that of all rounds
};

struct ThroughputSeries {
  std::string system;
  Direction direction = Direction::read;
  unsigned threads = 1;
  std::vector<double> rounds;  // bytes per second
};

// Frames per second from extents at hand, one at a time and in runs of kBatchPages.
struct Allocation {
  double single = 0;
  double in_runs = 0;
};

struct Skipped {
  std::string what;
  std::string why;
};

struct Figures {
  std::vector<std::string> systems;  // in the order of the table
  unsigned rounds = 0;
  double latency_slice = 0;  // seconds
  double throughput_slice = 0;
  std::uint64_t set_bytes = 0;
  std::string nodes;       // which memory nodes, in words
  double load_before = 0;  // of the machine, by others: 0 to 1
  std::vector<LatencySeries> latency;
  std::vector<ThroughputSeries> throughput;
  std::optional<Allocation> allocation;
  std::vector<Skipped> skipped;

  void add(std::string_view system, const Latency& what, const Summary& summary);
  void add(std::string_view system, Direction direction, unsigned threads, double bytes_per_second);
  [[nodiscard]] const LatencySeries* find(std::string_view system, const Latency& what) const;
  [[nodiscard]] const ThroughputSeries* find(std::string_view system, Direction direction, unsigned threads) const;

  // The median over the rounds of a / b; nothing where one of the two was not measured.
  [[nodiscard]] std::optional<double> ratio(std::string_view a, std::string_view b, const Latency& what) const;
  [[nodiscard]] std::optional<double> ratio(std::string_view a, std::string_view b, Direction direction,
                                            unsigned threads) const;
};

inline constexpr Latency kLatencies[] = {
    {Direction::read, 1}, {Direction::read, 16}, {Direction::write, 1}, {Direction::write, 16}};
inline constexpr unsigned kMostThreads = 4;

}  // namespace comex::bench

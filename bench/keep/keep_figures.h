// What a run of `comex bench keep` found: what it costs a program to have its pages in several places, and what it
// gains. As in figures.h, a figure is the median of the rounds, and a ratio is taken within each round first.
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/figures.h"

namespace comex::bench {

// How pages are kept, as `comex run` is told.
enum class Keeping : std::uint8_t { one_copy, two_copies, coded };
inline constexpr std::array kKeepings{Keeping::one_copy, Keeping::two_copies, Keeping::coded};
std::string_view to_string(Keeping keeping);

struct KeepMetric {
  std::string_view name;
  std::string_view unit;
};
// In the order of the table.
inline constexpr KeepMetric kFill{"to fill", "us/page"};
inline constexpr KeepMetric kSequential{"sequential", "us/page"};
inline constexpr KeepMetric kRandom{"random", "us/page"};
inline constexpr KeepMetric kRewrite{"random writes", "us/page"};
inline constexpr KeepMetric kSequentialAround{"sequential, node dead", "us/page"};
inline constexpr KeepMetric kRandomAround{"random, node dead", "us/page"};
inline constexpr KeepMetric kHeldFilled{"held: filled", "x"};
inline constexpr KeepMetric kHeldRewritten{"held: after random writes", "x"};
inline constexpr KeepMetric kHeldRested{"held: after 3 s of rest", "x"};
inline constexpr KeepMetric kPauseCalm{"longest wait: nothing happens", "ms"};
inline constexpr KeepMetric kPauseStopped{"longest wait: node stopped", "ms"};
inline constexpr KeepMetric kPauseKilled{"longest wait: node killed", "ms"};
inline constexpr std::array kKeepMetrics{kFill,         kSequential, kRandom,        kRewrite,    kSequentialAround,
                                         kRandomAround, kHeldFilled, kHeldRewritten, kHeldRested, kPauseCalm,
                                         kPauseStopped, kPauseKilled};

struct KeepFigures {
  std::uint64_t set_bytes = 0;
  std::uint64_t local_bytes = 0;
  unsigned nodes = 0;
  unsigned rounds = 0;
  double load_before = 0;  // of the machine, by others: 0 to 1
  // By metric and keeping, a value for each round.
  std::map<std::string_view, std::map<Keeping, std::vector<double>>> values;
  std::vector<Skipped> failed;

  void add(const KeepMetric& metric, Keeping keeping, double value) { values[metric.name][keeping].push_back(value); }
  [[nodiscard]] std::optional<double> middle(const KeepMetric& metric, Keeping keeping) const;
  [[nodiscard]] std::optional<double> longest(const KeepMetric& metric, Keeping keeping) const;
  // To one copy.
  [[nodiscard]] std::optional<double> ratio(const KeepMetric& metric, Keeping keeping) const;
};

}  // namespace comex::bench

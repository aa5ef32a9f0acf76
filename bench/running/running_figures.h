// What a run of `comex bench run` found: what programs that need no more memory than they have take by themselves and
// under `comex run`. As in figures.h, a figure is the median of the rounds, and a ratio is taken within each round
// first. Not thread-safe.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/figures.h"

namespace comex::bench {

enum class Mode : std::uint8_t {
  native,
  dormant,  // under comex run, far from its budget
  armed,    // under comex run, all its memory and calls watched as they would be near the budget
};
inline constexpr std::array<Mode, 3> kModes{Mode::native, Mode::dormant, Mode::armed};
std::string_view to_string(Mode mode);

struct RunningSeries {
  std::string name;
  std::string unit;
  std::map<Mode, std::vector<double>> rounds;  // a failed round is in none

  [[nodiscard]] bool has(Mode mode) const { return rounds.contains(mode) && !rounds.at(mode).empty(); }
  [[nodiscard]] double middle(Mode mode) const;
  // To native; nothing where one of the two was not measured.
  [[nodiscard]] std::optional<double> ratio(Mode mode) const;
  [[nodiscard]] std::optional<double> difference(Mode mode) const;
};

struct RunningFigures {
  double load_before = 0;  // of the machine, by others: 0 to 1
  unsigned rounds = 0;
  std::vector<RunningSeries> series;
  std::vector<Skipped> skipped;
  std::vector<Skipped> failed;

  [[nodiscard]] const RunningSeries* find(std::string_view name) const;
};

}  // namespace comex::bench

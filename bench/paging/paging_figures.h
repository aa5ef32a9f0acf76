// What a run of `comex bench paging` found: microseconds per page, by system, pattern, threads and round. As in
// figures.h, a figure is the median of the rounds, and a ratio is taken within each round first. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "bench/figures.h"

namespace comex::bench {

// The columns: the first touch of every page, then the patterns, by their names in the load.
inline constexpr std::array<std::string_view, 5> kPagingColumns{"fill", "sequential", "stride10", "random",
                                                                "random-write"};
inline constexpr std::array<unsigned, 2> kPagingThreads{1, 2};

struct PagingSeries {
  std::string system;
  std::string column;
  unsigned threads = 1;
  std::map<unsigned, double> rounds;  // a slow system is not in each of them

  [[nodiscard]] double middle() const;
};

struct PagingFigures {
  std::uint64_t set_bytes = 0;
  std::uint64_t local_bytes = 0;
  double load_before = 0;  // of the machine, by others: 0 to 1
  unsigned rounds = 0;
  std::vector<std::string> systems;  // in the order of the table
  std::vector<PagingSeries> series;
  std::vector<Skipped> skipped;
  std::vector<Skipped> failed;  // systems that began and broke, or gave wrong pages: what is the system

  void add(std::string_view system, std::string_view column, unsigned threads, unsigned round, double us);
  [[nodiscard]] const PagingSeries* find(std::string_view system, std::string_view column, unsigned threads) const;
  // The median over the rounds that both were in of a / b; nothing where there is none.
  [[nodiscard]] std::optional<double> ratio(std::string_view a, std::string_view b, std::string_view column,
                                            unsigned threads) const;
};

// The figures in the line that the load prints, by column. An error when it is not such a line, when a page was wrong,
// and when clearly more of the pages were resident than `local_bytes` hold: then nothing was paged.
Expected<std::map<std::string, double>> parse_load_line(const std::string& line, std::uint64_t local_bytes);

}  // namespace comex::bench

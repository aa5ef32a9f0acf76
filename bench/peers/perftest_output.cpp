#include "bench/peers/perftest_output.h"

#include <sstream>
#include <vector>

namespace comex::bench {

namespace {

// Columns. Both begin with the bytes of an operation and how many there were.
constexpr std::size_t kCount = 1;
constexpr std::size_t kTypical = 4;
constexpr std::size_t kAverage = 5;
constexpr std::size_t kPercentile99 = 7;
constexpr std::size_t kBandwidth = 3;
constexpr double kMega = 1024.0 * 1024.0;  // MB to older versions, MiB to newer ones

// The numbers below the line that has all of these headings: as many as are needed at least, or none.
std::vector<double> row_below(const std::string& output, std::initializer_list<std::string_view> headings,
                              std::size_t needed) {
  std::istringstream lines(output);
  std::vector<double> numbers;
  for (std::string line; numbers.empty() && std::getline(lines, line);) {
    bool all = true;
    for (const std::string_view heading : headings) all = all && line.find(heading) != std::string::npos;
    if (!all || !std::getline(lines, line)) continue;
    std::istringstream row(line);
    for (double number = 0; row >> number;) numbers.push_back(number);
  }
  if (numbers.size() < needed) numbers.clear();
  return numbers;
}

Error no_figures() {
  return Error{Errc::io, "it printed no figures"};
}

// What it measures with, it finds out anew each time; on a machine that is busy it may not succeed.
Error no_clock() {
  return Error{Errc::io, "it could not tell how fast this processor counts"};
}

}  // namespace

Expected<Summary> parse_perftest_latency(const std::string& output) {
  const auto row =
      row_below(output, {"#iterations", "t_typical[usec]", "t_avg[usec]", "99% percentile[usec]"}, kPercentile99 + 1);
  if (row.empty()) return no_figures();
  if (row[kTypical] <= 0) return no_clock();
  return Summary{row[kTypical], row[kPercentile99], row[kAverage], static_cast<std::size_t>(row[kCount])};
}

Expected<double> parse_perftest_bandwidth(const std::string& output) {
  auto row = row_below(output, {"#iterations", "BW average[MB/sec]"}, kBandwidth + 1);
  if (row.empty()) row = row_below(output, {"#iterations", "BW average[MiB/sec]"}, kBandwidth + 1);
  if (row.empty()) return no_figures();
  if (row[kBandwidth] <= 0) return no_clock();
  return row[kBandwidth] * kMega;
}

}  // namespace comex::bench

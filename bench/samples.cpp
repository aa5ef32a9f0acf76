#include "bench/samples.h"

#include <algorithm>
#include <numeric>

namespace comex::bench {

Samples::Samples(std::size_t capacity) : nanoseconds_(capacity, 0) {}

Summary Samples::summary() {
  if (count_ == 0) return {};
  const auto begin = nanoseconds_.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(count_);
  const auto at = [&](double quantile) {
    const auto rank = static_cast<std::size_t>(quantile * static_cast<double>(count_));
    const auto nth = begin + static_cast<std::ptrdiff_t>(std::min(rank, count_ - 1));
    std::nth_element(begin, nth, end);
    return static_cast<double>(*nth) / 1000.0;
  };
  const std::uint64_t sum = std::accumulate(begin, end, std::uint64_t{0});
  return Summary{at(0.50), at(0.99), static_cast<double>(sum) / static_cast<double>(count_) / 1000.0, count_};
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace comex::bench

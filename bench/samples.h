// Latency samples of one slice of measuring, and their summary. Not thread-safe: one thread measures, one owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace comex::bench {

// Microseconds.
struct Summary {
  double p50 = 0;
  double p99 = 0;
  double mean = 0;
  std::size_t count = 0;
};

class Samples {
 public:
  // All memory is taken here, and touched, so that recording costs the same from the first sample to the last.
  explicit Samples(std::size_t capacity = kUsualCapacity);

  void clear() { count_ = 0; }
  // Past four seconds a sample is recorded as four seconds.
  // REQUIRES: !full().
  void record(std::uint64_t nanoseconds) {
    nanoseconds_[count_++] = static_cast<std::uint32_t>(nanoseconds < kLongest ? nanoseconds : kLongest);
  }
  [[nodiscard]] bool full() const { return count_ == nanoseconds_.size(); }
  [[nodiscard]] std::size_t count() const { return count_; }

  // All zero when there are no samples. Reorders the samples.
  Summary summary();

 private:
  static constexpr std::size_t kUsualCapacity = 2'000'000;
  static constexpr std::uint64_t kLongest = 4'000'000'000;
  std::vector<std::uint32_t> nanoseconds_;
  std::size_t count_ = 0;
};

// The middle value; the mean of the two middle ones when there is an even number; 0 for none.
double median(std::vector<double> values);

}  // namespace comex::bench

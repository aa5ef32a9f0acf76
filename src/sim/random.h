// Random numbers of a simulation: the same seed gives the same run, on any machine and with any library.
// Not thread-safe.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace comex::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // SplitMix64.
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  // In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // REQUIRES: below > 0.
  std::uint64_t below(std::uint64_t below) { return next() % below; }
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }
  // With this mean; sigma is that of its logarithm.
  double log_normal(double mean, double sigma) {
    const double radius = std::sqrt(-2 * std::log1p(-uniform()));
    const double normal = radius * std::cos(2 * std::numbers::pi * uniform());
    return mean * std::exp(sigma * normal - sigma * sigma / 2);
  }

 private:
  std::uint64_t state_;
};

}  // namespace comex::sim

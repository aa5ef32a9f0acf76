#include "bench/prefetch/load_visits.h"

#include <algorithm>
#include <cmath>

namespace comex::bench {

namespace {

constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15;

}  // namespace

std::uint64_t StrideVisits::next() {
  const std::uint64_t found = first_ + at_;
  at_ += stride_;
  if (at_ >= count_) {
    if (++start_ >= std::min(stride_, count_)) start_ = 0;
    at_ = start_;
  }
  return found;
}

std::uint64_t ChangingVisits::next() {
  if (left_ == 0) {
    const std::uint64_t random = mix(seed_ + ++turn_ * kGamma);
    left_ = kShortest + random % (kLongest - kShortest + 1);
    const std::uint64_t stride = (1 + (random >> 32) % kLongestStride) % count_;
    const bool back = (random >> 48) % 4 == 0;
    step_ = back ? count_ - stride : stride;
  }
  --left_;
  return at_ = (at_ + step_) % count_;
}

InterleavedVisits::InterleavedVisits(std::uint64_t count)
    : streams_{StrideVisits(0, count / 4, 1), StrideVisits(count / 4, count / 4, 3),
               StrideVisits(count / 4 * 2, count / 4, 5), StrideVisits(count / 4 * 3, count - count / 4 * 3, 10)} {}

Zipf::Zipf(std::uint64_t count, double exponent, std::uint64_t seed)
    : count_(static_cast<double>(count)), exponent_(exponent), state_(mix(seed + kGamma)) {
  first_ = integral(1.5) - 1;
  last_ = integral(count_ + 0.5);
  sure_ = 2 - inverse(integral(2.5) - density(2));
}

double Zipf::integral(double x) const {
  return std::expm1((1 - exponent_) * std::log(x)) / (1 - exponent_);
}

double Zipf::inverse(double x) const {
  return std::exp(std::log1p(std::max(x * (1 - exponent_), -1.0)) / (1 - exponent_));
}

double Zipf::density(double x) const {
  return std::exp(-exponent_ * std::log(x));
}

std::uint64_t Zipf::next() {
  for (;;) {
    state_ += kGamma;
    const double uniform = static_cast<double>(mix(state_) >> 11) * 0x1p-53;
    const double area = last_ + uniform * (first_ - last_);
    const double x = inverse(area);
    const double k = std::clamp(std::floor(x + 0.5), 1.0, count_);
    if (k - x <= sure_ || area >= integral(k + 0.5) - density(k)) return static_cast<std::uint64_t>(k) - 1;
  }
}

std::unique_ptr<Visits> make_visits(std::string_view name, std::uint64_t count, std::uint64_t seed) {
  if (name == "sequential") return std::make_unique<StrideVisits>(0, count, 1);
  if (name == "stride10") return std::make_unique<StrideVisits>(0, count, 10);
  if (name == "changing-stride") return std::make_unique<ChangingVisits>(count, seed);
  if (name == "interleaved4") return std::make_unique<InterleavedVisits>(count);
  if (name == "random") return std::make_unique<RandomVisits>(count, seed);
  if (name == "zipf") return std::make_unique<ZipfVisits>(count, seed);
  return nullptr;
}

}  // namespace comex::bench

#include "bench/evict/references.h"

#include <algorithm>
#include <cmath>

namespace comex::bench {
namespace {

constexpr double kSkew = 0.99;

std::uint64_t pages_of(References references, std::uint64_t local) {
  switch (references) {
    case References::loop: return local * 11 / 10;
    case References::zipf:
    case References::hot_scan: return local * 4;
    case References::sequential:
    case References::random: return local * 2;
  }
  return local;
}

// In multiples of what may be local: long enough that what a policy has learned counts, and how it learned it does not.
std::uint64_t length_of(References references, std::uint64_t local) {
  switch (references) {
    case References::loop:
    case References::sequential:
    case References::random: return local * 22;
    case References::zipf:
    case References::hot_scan: return local * 32;
  }
  return local;
}

}  // namespace

std::string_view to_string(References references) {
  switch (references) {
    case References::loop: return "loop";
    case References::zipf: return "zipf";
    case References::hot_scan: return "hot-scan";
    case References::sequential: return "sequential";
    case References::random: return "random";
  }
  return "";
}

std::optional<References> parse_references(std::string_view text) {
  for (const References references : kReferences) {
    if (to_string(references) == text) return references;
  }
  return std::nullopt;
}

ReferenceString::Zipf::Zipf(std::uint64_t n) : n_(static_cast<double>(n)) {
  for (std::uint64_t i = 1; i <= n; ++i) sum_ += std::pow(static_cast<double>(i), -kSkew);
  const double first_two = 1 + std::pow(2.0, -kSkew);
  eta_ = (1 - std::pow(2 / n_, 1 - kSkew)) / (1 - first_two / sum_);
}

std::uint64_t ReferenceString::Zipf::at(double u) const {
  const double share = u * sum_;
  if (share < 1) return 0;
  if (share < 1 + std::pow(0.5, kSkew)) return 1;
  const double at = n_ * std::pow(eta_ * u - eta_ + 1, 1 / (1 - kSkew));
  return static_cast<std::uint64_t>(std::clamp(at, 0.0, n_ - 1));
}

ReferenceString::ReferenceString(References references, std::uint64_t local, std::uint64_t seed)
    : references_(references),
      local_(local),
      pages_(pages_of(references, local)),
      length_(length_of(references, local)),
      state_(mix(seed)),
      scattered_(pages_, seed),
      zipf_(pages_) {}

std::uint64_t ReferenceString::next() {
  const std::uint64_t index = index_++;
  switch (references_) {
    case References::loop:
    case References::sequential: return index % pages_;
    case References::random: return draw() % pages_;
    case References::zipf: return scattered_.at(zipf_.at(static_cast<double>(draw() >> 11) * 0x1p-53));
    case References::hot_scan: return index % 2 == 0 ? scattered_.at(draw() % (local_ / 2)) : index / 2 % pages_;
  }
  return 0;
}

}  // namespace comex::bench

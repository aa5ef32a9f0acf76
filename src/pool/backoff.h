// How long to wait before the next try: twice as long each time, and never the same as everybody else (jitter), so that
// the clients of a node that comes back do not all knock at once.
//
// Thread safety: none. Deterministic given the seed.
#pragma once

#include <algorithm>
#include <random>

#include "base/clock.h"

namespace comex {

class Backoff {
 public:
  Backoff(Millis first, Millis longest, std::uint64_t seed)
      : first_(first), longest_(std::max(first, longest)), next_(first), random_(seed) {}

  // Between a half and the whole of 1, 2, 4 ... times the first, at most the longest.
  Nanos next() {
    const Nanos whole = next_;
    next_ = std::min(next_ * 2, Nanos(longest_));
    return Nanos(std::uniform_int_distribution<Nanos::rep>(whole.count() / 2, whole.count())(random_));
  }
  void reset() { next_ = first_; }

 private:
  Nanos first_;
  Nanos longest_;
  Nanos next_;
  std::mt19937_64 random_;
};

}  // namespace comex

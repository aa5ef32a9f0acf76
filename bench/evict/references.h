// The orders in which the eviction load touches pages: a string of references that follows from the seed, so that what
// the best possible policy would miss on it can be computed. None keeps a table, so that the load's own memory does not
// count against the budget that is measured.
//
// Thread safety: belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "bench/paging/load_order.h"

namespace comex::bench {

enum class References : std::uint8_t {
  loop,        // again and again over a tenth more pages than may be local
  zipf,        // a few pages are used often and most hardly ever: four times as many as may be local, scattered
  hot_scan,    // half of what may be local is used all the time, scattered over pages that a scan walks through
  sequential,  // again and again over twice as many pages as may be local
  random,      // any of twice as many pages as may be local
};

inline constexpr std::array kReferences{References::loop, References::zipf, References::hot_scan,
                                        References::sequential, References::random};

// The name on the command line and in JSON.
std::string_view to_string(References references);
std::optional<References> parse_references(std::string_view text);

class ReferenceString {
 public:
  // `local`: how many pages may be local. REQUIRES: at least 64.
  ReferenceString(References references, std::uint64_t local, std::uint64_t seed);

  [[nodiscard]] std::uint64_t pages() const { return pages_; }
  [[nodiscard]] std::uint64_t length() const { return length_; }
  // REQUIRES: called at most length() times.
  std::uint64_t next();

 private:
  // Numbers below n, the i-th as often as 1 / i^0.99: the method of Gray and others ("Quickly Generating Billion-Record
  // Synthetic Databases"), as YCSB has it.
  class Zipf {
   public:
    explicit Zipf(std::uint64_t n);
    // `u`: from 0 to 1.
    [[nodiscard]] std::uint64_t at(double u) const;

   private:
    double n_;
    double sum_ = 0;
    double eta_ = 0;
  };

  std::uint64_t draw() { return mix(state_ += 0x9e3779b97f4a7c15); }

  References references_;
  std::uint64_t local_;
  std::uint64_t pages_;
  std::uint64_t length_;
  std::uint64_t state_;
  Permutation scattered_;
  Zipf zipf_;
  std::uint64_t index_ = 0;
};

}  // namespace comex::bench

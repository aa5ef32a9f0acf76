// The orders in which the loads of `comex bench prefetch` visit pages: what a prefetcher has to find out. None keeps a
// table, so that the load's own memory does not count against the budget that is measured.
//
// Thread safety: each belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "bench/paging/load_order.h"

namespace comex::bench {

class Visits {
 public:
  virtual ~Visits() = default;
  // A number below the count.
  virtual std::uint64_t next() = 0;
};

// Every `stride`-th number, then again from the next one on, until each has been visited once; then from the start.
class StrideVisits : public Visits {
 public:
  // REQUIRES: count > 0, stride > 0.
  StrideVisits(std::uint64_t first, std::uint64_t count, std::uint64_t stride)
      : first_(first), count_(count), stride_(stride) {}
  std::uint64_t next() override;

 private:
  std::uint64_t first_;
  std::uint64_t count_;
  std::uint64_t stride_;
  std::uint64_t start_ = 0;
  std::uint64_t at_ = 0;
};

// Goes on by a stride for a while, then by another, forwards or backwards: none lasts, each lasts long enough to pay.
class ChangingVisits : public Visits {
 public:
  // REQUIRES: count > 0.
  ChangingVisits(std::uint64_t count, std::uint64_t seed) : count_(count), seed_(seed) {}
  std::uint64_t next() override;

  static constexpr std::uint64_t kLongestStride = 16;
  static constexpr std::uint64_t kShortest = 256;  // visits by one stride
  static constexpr std::uint64_t kLongest = 1024;

 private:
  std::uint64_t count_;
  std::uint64_t seed_;
  std::uint64_t at_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t left_ = 0;  // visits by this stride
  std::uint64_t turn_ = 0;
};

// Four streams, each in its own quarter and with its own stride, one visit of each in turn.
class InterleavedVisits : public Visits {
 public:
  // REQUIRES: count >= 4.
  explicit InterleavedVisits(std::uint64_t count);
  std::uint64_t next() override { return streams_[turn_++ % streams_.size()].next(); }

 private:
  std::array<StrideVisits, 4> streams_;
  std::uint64_t turn_ = 0;
};

// Each number once, in an order that nobody can guess.
class RandomVisits : public Visits {
 public:
  // REQUIRES: count > 0.
  RandomVisits(std::uint64_t count, std::uint64_t seed) : count_(count), permutation_(count, seed) {}
  std::uint64_t next() override { return permutation_.at(index_++ % count_); }

 private:
  std::uint64_t count_;
  Permutation permutation_;
  std::uint64_t index_ = 0;
};

// Numbers below `count`, the k-th of them about 1 / k^exponent times as often as the first, by rejection-inversion
// (Hörmann and Derflinger 1996).
class Zipf {
 public:
  // REQUIRES: count > 0, exponent > 0 and not 1.
  Zipf(std::uint64_t count, double exponent, std::uint64_t seed);
  std::uint64_t next();

 private:
  [[nodiscard]] double integral(double x) const;
  [[nodiscard]] double inverse(double x) const;
  [[nodiscard]] double density(double x) const;

  double count_;
  double exponent_;
  std::uint64_t state_;
  double first_ = 0;
  double last_ = 0;
  double sure_ = 0;
};

inline constexpr double kZipfExponent = 0.99;  // what key-value stores see, and YCSB takes

// The favourites are scattered over all of it.
class ZipfVisits : public Visits {
 public:
  // REQUIRES: count > 0.
  ZipfVisits(std::uint64_t count, std::uint64_t seed) : zipf_(count, kZipfExponent, seed), where_(count, seed) {}
  std::uint64_t next() override { return where_.at(zipf_.next()); }

 private:
  Zipf zipf_;
  Permutation where_;
};

inline constexpr std::array<std::string_view, 6> kVisitNames{"sequential",   "stride10", "changing-stride",
                                                             "interleaved4", "random",   "zipf"};

// Nothing for a name that is not one of those. REQUIRES: count >= 4.
std::unique_ptr<Visits> make_visits(std::string_view name, std::uint64_t count, std::uint64_t seed);

}  // namespace comex::bench

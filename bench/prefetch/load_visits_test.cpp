#include "bench/prefetch/load_visits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace comex::bench {
namespace {

std::vector<std::uint64_t> visited(Visits& visits, std::uint64_t count) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(visits.next());
  return all;
}

TEST(Visits, make_knowsEveryNameAndNoOther) {
  for (const std::string_view name : kVisitNames) {
    const auto visits = make_visits(name, 1000, 1);
    ASSERT_NE(visits, nullptr) << name;
    for (const std::uint64_t each : visited(*visits, 5000)) ASSERT_LT(each, 1000u) << name;
  }
  EXPECT_EQ(make_visits("backwards", 1000, 1), nullptr);
}

TEST(Visits, next_visitsEachOnceWhereItSaysSo) {
  for (const std::string_view name : {"sequential", "stride10", "interleaved4", "random"}) {
    for (const std::uint64_t count : {4u, 8u, 64u, 1000u, 4096u}) {
      const auto all = visited(*make_visits(name, count, 7), count);
      EXPECT_EQ(std::set<std::uint64_t>(all.begin(), all.end()).size(), count) << name << " of " << count;
    }
  }
}

TEST(Visits, next_interleavedTakesItsStreamsInTurn) {
  InterleavedVisits visits(400);
  EXPECT_EQ(visited(visits, 8), (std::vector<std::uint64_t>{0, 100, 200, 300, 1, 103, 205, 310}));
}

TEST(Visits, next_changingStrideLastsAWhile) {
  constexpr std::uint64_t kCount = 100'000;
  ChangingVisits visits(kCount, 3);
  const auto all = visited(visits, 20'000);
  std::set<std::uint64_t> steps;
  std::uint64_t run = 1;
  std::uint64_t last = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const std::uint64_t step = (all[i] + kCount - all[i - 1]) % kCount;
    EXPECT_LE(std::min(step, kCount - step), ChangingVisits::kLongestStride);
    if (step != last && last != 0) {
      EXPECT_GE(run, ChangingVisits::kShortest - 1);
      run = 0;
    }
    ++run;
    last = step;
    steps.insert(step);
  }
  EXPECT_GT(steps.size(), 8u);
}

TEST(Zipf, next_favoursAsItShould) {
  constexpr unsigned kDraws = 200'000;
  constexpr std::uint64_t kCount = 1000;
  Zipf zipf(kCount, kZipfExponent, 5);
  std::map<std::uint64_t, double> found;
  for (unsigned i = 0; i < kDraws; ++i) {
    const std::uint64_t k = zipf.next();
    ASSERT_LT(k, kCount);
    ++found[k];
  }
  double sum = 0;
  for (std::uint64_t k = 1; k <= kCount; ++k) sum += std::pow(k, -kZipfExponent);
  for (const std::uint64_t k : {1u, 2u, 3u, 10u, 100u}) {
    const double wanted = kDraws * std::pow(k, -kZipfExponent) / sum;
    EXPECT_NEAR(found[k - 1], wanted, 5 * std::sqrt(wanted)) << k;
  }
}

}  // namespace
}  // namespace comex::bench

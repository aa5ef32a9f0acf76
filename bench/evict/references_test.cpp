#include "bench/evict/references.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace comex::bench {
namespace {

std::vector<std::uint64_t> all(References references, std::uint64_t local, std::uint64_t seed) {
  ReferenceString string(references, local, seed);
  std::vector<std::uint64_t> pages(string.length());
  for (std::uint64_t& page : pages) page = string.next();
  return pages;
}

TEST(References, parse_readsWhatToStringWrites) {
  for (const References references : kReferences) EXPECT_EQ(parse_references(to_string(references)), references);
  EXPECT_FALSE(parse_references("backwards"));
}

TEST(References, next_followsFromTheSeedAndStaysWithin) {
  for (const References references : kReferences) {
    const auto pages = all(references, 500, 7);
    EXPECT_EQ(pages, all(references, 500, 7)) << to_string(references);
    EXPECT_LT(*std::max_element(pages.begin(), pages.end()), ReferenceString(references, 500, 7).pages());
  }
  EXPECT_NE(all(References::zipf, 500, 7), all(References::zipf, 500, 8));
}

TEST(References, next_zipfUsesAFewPagesOften) {
  std::vector<std::uint64_t> times(4 * 1000, 0);
  const auto pages = all(References::zipf, 1000, 1);
  for (const std::uint64_t page : pages) ++times[page];
  std::sort(times.rbegin(), times.rend());
  std::uint64_t first_tenth = 0;
  for (std::size_t i = 0; i < 400; ++i) first_tenth += times[i];
  const double share = static_cast<double>(first_tenth) / static_cast<double>(pages.size());
  EXPECT_NEAR(share, 0.74, 0.03);  // the sum of 1 / i^0.99 up to 400, of that up to 4000
}

TEST(References, next_halfOfTheUsesOfAHotScanAreOfTheHotSet) {
  std::vector<std::uint64_t> times(4 * 1000, 0);
  for (const std::uint64_t page : all(References::hot_scan, 1000, 1)) ++times[page];
  const auto hot = std::count_if(times.begin(), times.end(), [](std::uint64_t each) { return each > 12; });
  EXPECT_GE(hot, 480);
  EXPECT_LE(hot, 500);
}

}  // namespace
}  // namespace comex::bench

#include "bench/pattern.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>

namespace comex::bench {
namespace {

using Page = std::array<std::byte, kPageSize>;

TEST(Pattern, countWrongBytes_madePage) {
  alignas(8) Page page;
  make_page(7, 123456789012, page.data());
  EXPECT_EQ(count_wrong_bytes(7, 123456789012, page.data()), 0u);
}

TEST(Pattern, countWrongBytes_eachByteCounts) {
  alignas(8) Page page;
  make_page(7, 5, page.data());
  for (std::size_t i = 0; i < kPageSize; ++i) {
    page[i] ^= std::byte{1};
    ASSERT_EQ(count_wrong_bytes(7, 5, page.data()), 1u) << i;
    page[i] ^= std::byte{1};
  }
}

TEST(Pattern, countWrongBytes_otherPageOrSeed) {
  alignas(8) Page page;
  make_page(7, 5, page.data());
  EXPECT_GT(count_wrong_bytes(7, 6, page.data()), kPageSize / 2);
  EXPECT_GT(count_wrong_bytes(8, 5, page.data()), kPageSize / 2);
}

TEST(Pattern, makePage_neighboursShareNoWord) {
  std::set<std::uint64_t> words;
  for (std::uint64_t number = 0; number < 64; ++number) {
    alignas(8) Page page;
    make_page(1, number, page.data());
    for (std::size_t i = 0; i < kPageSize; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, page.data() + i, sizeof word);
      words.insert(word);
    }
  }
  EXPECT_EQ(words.size(), 64 * kPageSize / 8);
}

}  // namespace
}  // namespace comex::bench

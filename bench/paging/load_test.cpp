#include "bench/paging/load.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "bench/paging/load_page.h"

namespace comex::bench {
namespace {

std::vector<std::uint64_t> visited(Pattern pattern, std::uint64_t count, std::uint64_t seed) {
  PageOrder order(pattern, count, seed);
  std::vector<std::uint64_t> pages;
  for (std::uint64_t i = 0; i < count; ++i) pages.push_back(order.next());
  return pages;
}

TEST(PageOrder, next_visitsEachPageOnce) {
  for (const Pattern pattern : kPatterns) {
    for (const std::uint64_t count : {1u, 2u, 3u, 9u, 10u, 11u, 64u, 1000u, 4097u}) {
      const std::vector<std::uint64_t> pages = visited(pattern, count, 7);
      const std::set<std::uint64_t> distinct(pages.begin(), pages.end());
      EXPECT_EQ(distinct.size(), count) << to_string(pattern);
      EXPECT_EQ(*distinct.rbegin(), count - 1) << to_string(pattern);
    }
  }
}

TEST(PageOrder, next_strideGoesRoundTenTimes) {
  const std::vector<std::uint64_t> pages = visited(Pattern::stride, 25, 1);
  EXPECT_EQ((std::vector<std::uint64_t>{pages.begin(), pages.begin() + 6}),
            (std::vector<std::uint64_t>{0, 10, 20, 1, 11, 21}));
}

TEST(PageOrder, next_randomHasNoFavouriteStep) {
  const std::vector<std::uint64_t> pages = visited(Pattern::random, 10'000, 3);
  std::map<std::uint64_t, unsigned> steps;
  unsigned most = 0;
  for (std::size_t i = 1; i < pages.size(); ++i) most = std::max(most, ++steps[pages[i] - pages[i - 1]]);
  EXPECT_LT(most, 20u);
  EXPECT_NE(pages, visited(Pattern::random, 10'000, 4));
}

TEST(Pattern, parse_readsWhatToStringWrites) {
  for (const Pattern pattern : kPatterns) EXPECT_EQ(parse_pattern(to_string(pattern)), pattern);
  EXPECT_FALSE(parse_pattern("backwards"));
}

TEST(LoadPage, pageIsRight_findsForeignStaleAndZeroPages) {
  std::array<std::uint64_t, kLoadPageWords> words{};
  const PageIdentity page{1, 42, 3};
  EXPECT_FALSE(page_is_right(words.data(), page, 0));
  fill_page(words.data(), page);
  EXPECT_TRUE(page_is_right(words.data(), page, 0));
  EXPECT_FALSE(page_is_right(words.data(), {1, 43, 3}, 0));
  EXPECT_FALSE(page_is_right(words.data(), {1, 42, 2}, 0));
  EXPECT_FALSE(page_is_right(words.data(), {2, 42, 3}, 0));
  renew_page(words.data(), {1, 42, 4});
  EXPECT_TRUE(page_is_right(words.data(), {1, 42, 4}, 0));
}

TEST(LoadPage, pageIsRight_findsATornPage) {
  std::array<std::uint64_t, kLoadPageWords> words{};
  fill_page(words.data(), {1, 42, 0});
  words[1] = 1;  // the new generation arrived at one end only
  EXPECT_FALSE(page_is_right(words.data(), {1, 42, 1}, 0));
}

TEST(LoadPage, describeWrongPage_namesPageAndWord) {
  std::array<std::uint64_t, kLoadPageWords> words{};
  fill_page(words.data(), {1, 42, 0});
  words[300] = 0xbad;
  EXPECT_EQ(describe_wrong_page(words.data(), {1, 42, 0}),
            "page 42: word 300 is 0000000000000bad instead of 000000000000002a (generation 0)");
}

LoadOptions small_load() {
  LoadOptions options;
  options.bytes = 300 * kLoadPageBytes;
  options.passes = {Pattern::random_write, Pattern::sequential, Pattern::random_write, Pattern::stride,
                    Pattern::random};
  return options;
}

TEST(Load, run_findsNothingWrongWithPlainMemory) {
  for (const unsigned threads : {1u, 2u, 7u}) {
    LoadOptions options = small_load();
    options.threads = threads;
    const std::optional<LoadResult> result = run_load(options);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->pages, 300u);
    EXPECT_EQ(result->pages_wrong, 0u) << result->first_wrong;
    EXPECT_LE(result->pages_resident, 300u);
    EXPECT_EQ(result->passes.size(), options.passes.size());
  }
}

TEST(Load, run_findsACorruptedPage) {
  LoadOptions options = small_load();
  options.passes = {Pattern::random};
  options.corrupt = 123;
  const std::optional<LoadResult> result = run_load(options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->pages_wrong, 1u);
  EXPECT_TRUE(result->first_wrong.starts_with("page 123: word 511 is")) << result->first_wrong;
}

TEST(Load, toJson_isOneLine) {
  LoadOptions options;
  options.threads = 2;
  LoadResult result;
  result.pages = 16;
  result.fill_us = 1.5;
  result.pages_resident = 9;
  result.passes = {{Pattern::random, 2.25}, {Pattern::stride, 3}};
  EXPECT_EQ(to_json(options, result), R"({"pages":16,"threads":2,"fill_us":1.5000,"passes":[)"
                                      R"({"pattern":"random","us":2.2500},)"
                                      R"({"pattern":"stride10","us":3.0000}],"pages_resident":9,"pages_wrong":0})");
}

}  // namespace
}  // namespace comex::bench

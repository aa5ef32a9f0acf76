// What the paging load keeps in a page, so that any page that is stale, foreign, zeroed or shifted shows.
//
//   word 0        the page's number
//   word 1        its generation: how often the pages had been rewritten when it was written last
//   2 .. 255      words that follow from the seed and the page: they do not compress
//   256 .. 510    the page's number again: they do
//   word 511      follows from seed, page and generation
//
// So a page compresses to about half, as the memory of programs does: zram is shown neither at its best nor at its
// worst.
//
// Thread-safe: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace comex::bench {

inline constexpr std::size_t kLoadPageBytes = 4096;
inline constexpr std::size_t kLoadPageWords = kLoadPageBytes / sizeof(std::uint64_t);

struct LoadPage {
  std::uint64_t words[kLoadPageWords];
};

struct PageIdentity {
  std::uint64_t seed = 0;
  std::uint64_t number = 0;
  std::uint64_t generation = 0;
};

// Writes all of the page.
void fill_page(std::uint64_t* words, const PageIdentity& page);

// Makes a page of another generation one of this: both ends of it are written.
void renew_page(std::uint64_t* words, const PageIdentity& page);

// Looks at both ends and at one word between, which depends on `look`, so that passes look at different ones.
bool page_is_right(const std::uint64_t* words, const PageIdentity& page, std::uint64_t look);

// One line on which word of all is wrong, with what was wanted and found; for a page that is not right.
std::string describe_wrong_page(const std::uint64_t* words, const PageIdentity& page);

}  // namespace comex::bench

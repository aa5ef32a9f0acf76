#include "bench/paging/load_page.h"

#include <array>
#include <cstdio>

#include "bench/paging/load_order.h"

namespace comex::bench {

namespace {

constexpr std::size_t kNumber = 0;
constexpr std::size_t kGeneration = 1;
constexpr std::size_t kBody = 2;
constexpr std::size_t kEven = 256;  // from here on the body compresses
constexpr std::size_t kLast = kLoadPageWords - 1;
constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15;

std::uint64_t page_base(const PageIdentity& page) {
  return mix(page.seed + page.number * kGamma);
}

std::uint64_t body_word(std::uint64_t base, std::uint64_t number, std::size_t at) {
  return at < kEven ? mix(base + at * kGamma) : number;
}

std::uint64_t wanted(const PageIdentity& page, std::size_t at) {
  switch (at) {
    case kNumber: return page.number;
    case kGeneration: return page.generation;
    case kLast: return mix(page_base(page) ^ page.generation);
    default: return body_word(page_base(page), page.number, at);
  }
}

}  // namespace

void fill_page(std::uint64_t* words, const PageIdentity& page) {
  const std::uint64_t base = page_base(page);
  for (std::size_t at = kBody; at < kLast; ++at) words[at] = body_word(base, page.number, at);
  words[kNumber] = page.number;
  renew_page(words, page);
}

void renew_page(std::uint64_t* words, const PageIdentity& page) {
  words[kGeneration] = page.generation;
  words[kLast] = wanted(page, kLast);
}

bool page_is_right(const std::uint64_t* words, const PageIdentity& page, std::uint64_t look) {
  const std::size_t between = kBody + mix(page.number + look * kGamma) % (kLast - kBody);
  for (const std::size_t at : {kNumber, kGeneration, between, kLast}) {
    if (words[at] != wanted(page, at)) return false;
  }
  return true;
}

std::string describe_wrong_page(const std::uint64_t* words, const PageIdentity& page) {
  std::size_t at = 0;
  while (at < kLast && words[at] == wanted(page, at)) ++at;
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "page %llu: word %zu is %016llx instead of %016llx (generation %llu)",
                static_cast<unsigned long long>(page.number), at, static_cast<unsigned long long>(words[at]),
                static_cast<unsigned long long>(wanted(page, at)), static_cast<unsigned long long>(page.generation));
  return text.data();
}

}  // namespace comex::bench

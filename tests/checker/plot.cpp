#include "checker/plot.h"

#include <algorithm>
#include <utility>

namespace checker {

bool Plot::allows(std::size_t from, std::size_t count, int protection) const {
  return std::all_of(pages_.begin() + static_cast<std::ptrdiff_t>(from),
                     pages_.begin() + static_cast<std::ptrdiff_t>(from + count),
                     [&](const Page& page) { return (page.protection & protection) == protection; });
}

std::uint64_t Plot::expected(std::size_t index, std::size_t at) const {
  const Page& page = pages_[index];
  return word(at < page.split ? page.stamp : page.before, at);
}

void Plot::write(std::size_t index, std::uint64_t stamp, std::size_t words) {
  Page& page = pages_[index];
  if (page.may_be_zero) {  // what is not written could not be told
    page.split = kWords;
    page.may_be_zero = false;
    words = kWords;
  }
  if (page.split == kWords) {
    page.before = page.stamp;
    page.stamp = stamp;
    page.split = 0;
  }
  auto* const memory = reinterpret_cast<volatile std::uint64_t*>(address(index));
  const std::size_t end = std::min(kWords, page.split + words);
  for (std::size_t i = page.split; i < end; ++i) memory[i] = word(page.stamp, i);
  page.split = static_cast<std::uint16_t>(end);
}

void Plot::verify(std::size_t index) {
  const bool may_be_zero = pages_[index].may_be_zero;
  const auto* const memory = reinterpret_cast<const volatile std::uint64_t*>(address(index));
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint64_t is = memory[i];
    const std::uint64_t should = expected(index, i);
    if (is == should) continue;
    // Freed memory may turn to zeros at any time, also while it is looked at; but not back.
    if (!may_be_zero || is != 0) report(index, i, is, should);
    for (std::size_t at = 0; at < kWords; ++at) {
      if (memory[at] != 0) report(index, at, memory[at], 0);
    }
    return;
  }
}

void Plot::verify_all() {
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    if ((pages_[i].protection & 1) != 0) verify(i);
  }
}

void Plot::now_zero(std::size_t from, std::size_t count) {
  for (std::size_t i = from; i < from + count; ++i) pages_[i] = {0, 0, kWords, pages_[i].protection, false};
}

void Plot::now_maybe_zero(std::size_t from, std::size_t count) {
  for (std::size_t i = from; i < from + count; ++i) pages_[i].may_be_zero = true;
}

void Plot::now_protected(std::size_t from, std::size_t count, int protection) {
  for (std::size_t i = from; i < from + count; ++i) pages_[i].protection = static_cast<std::uint8_t>(protection);
}

void Plot::now_as(std::size_t index, const Page& other) {
  const std::uint8_t protection = pages_[index].protection;
  pages_[index] = other;
  pages_[index].protection = protection;
}

Plot Plot::cut(std::size_t from) {
  const auto at = pages_.begin() + static_cast<std::ptrdiff_t>(from);
  Plot rest(*settings_, address(from), std::vector<Page>(at, pages_.end()));
  pages_.resize(from);
  return rest;
}

void Plot::report(std::size_t index, std::size_t at, std::uint64_t is, std::uint64_t should) const {
  const Page& page = pages_[index];
  const char* guess = "something else";
  if (is == 0) guess = "zero";
  if (is == word(page.before, at)) guess = "what was there before the last write";
  const auto* const memory = reinterpret_cast<const volatile std::uint64_t*>(address(index));
  std::size_t bad = 0;
  for (std::size_t i = 0; i < kWords; ++i) bad += memory[i] != expected(index, i) ? 1 : 0;
  wrong(*settings_,
        "word %zu of page %p (%zu of %zu in its mapping, written up to word %u, protection %d%s) is %lx, should be "
        "%lx: it is %s; %zu words of the page are wrong now",
        at, static_cast<void*>(address(index)), index, pages_.size(), page.split, page.protection,
        page.may_be_zero ? ", freed" : "", is, should, guess, bad);
}

}  // namespace checker

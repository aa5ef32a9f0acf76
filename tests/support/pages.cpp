#include "support/pages.h"

#include <algorithm>
#include <cstring>

namespace comex::test {
namespace {

// SplitMix64: neighbouring inputs give unrelated words.
std::uint64_t word_of(std::uint64_t seed, std::uint64_t number, std::uint64_t word) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15ULL + number * 0xbf58476d1ce4e5b9ULL + word * 0x94d049bb133111ebULL + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

constexpr std::size_t kWords = kPageSize / sizeof(std::uint64_t);

Errc move_all(Link& link, Direction direction, const Extent& frames, Pages& pages) {
  for (std::uint32_t at = 0; at < frames.count; at += wire::kMaxTransferPages) {
    const std::uint32_t count = std::min(wire::kMaxTransferPages, frames.count - at);
    const Segment segment{frames.first + at, count, pages.page(at)};
    Transfer transfer(direction, {&segment, 1});
    if (const Errc result = link.move(transfer); result != Errc::ok) return result;
  }
  return Errc::ok;
}

}  // namespace

void fill_page(std::byte* page, std::uint64_t seed, std::uint64_t number) {
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint64_t word = word_of(seed, number, i);
    std::memcpy(page + i * sizeof word, &word, sizeof word);
  }
}

bool page_is(const std::byte* page, std::uint64_t seed, std::uint64_t number) {
  for (std::size_t i = 0; i < kWords; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, page + i * sizeof word, sizeof word);
    if (word != word_of(seed, number, i)) return false;
  }
  return true;
}

bool page_is_zeros(const std::byte* page) {
  return std::all_of(page, page + kPageSize, [](std::byte b) { return b == std::byte{0}; });
}

void Pages::fill(std::uint64_t seed) {
  for (std::uint32_t i = 0; i < count_; ++i) fill_page(page(i), seed, i);
}

void Pages::clear() {
  std::fill(bytes_.begin(), bytes_.end(), std::byte{0});
}

bool Pages::are(std::uint64_t seed) const {
  for (std::uint32_t i = 0; i < count_; ++i) {
    if (!page_is(bytes_.data() + (std::size_t{i} << kPageShift), seed, i)) return false;
  }
  return true;
}

bool Pages::are_zeros() const {
  return std::all_of(bytes_.begin(), bytes_.end(), [](std::byte b) { return b == std::byte{0}; });
}

Errc write(Link& link, const Extent& frames, Pages& pages) {
  return move_all(link, Direction::write, frames, pages);
}
Errc read(Link& link, const Extent& frames, Pages& pages) {
  return move_all(link, Direction::read, frames, pages);
}

std::uint64_t total_frames(const std::vector<Extent>& extents) {
  std::uint64_t total = 0;
  for (const auto& extent : extents) total += extent.count;
  return total;
}

}  // namespace comex::test

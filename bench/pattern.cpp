#include "bench/pattern.h"

#include <cstring>

namespace comex::bench {

namespace {

// Two words at a time, which every 64-bit machine has registers for.
using Lanes = std::uint64_t __attribute__((vector_size(16)));
constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(std::uint64_t);
constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;

// The end of splitmix64: neighbouring pages get keys that have nothing to do with each other.
std::uint64_t key_of(std::uint64_t seed, std::uint64_t page) {
  std::uint64_t key = seed + (page + 1) * kStep;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
  return key ^ (key >> 31);
}

// Calls use(offset, words) for each 16 bytes of the page.
template <typename Use>
void for_each_lanes(std::uint64_t seed, std::uint64_t page, Use use) {
  const std::uint64_t key = key_of(seed, page);
  Lanes state{key, key + kStep};
  for (std::size_t offset = 0; offset < kPageSize; offset += sizeof state) {
    use(offset, state ^ (state >> 29));
    state += kLanes * kStep;
  }
}

}  // namespace

void make_page(std::uint64_t seed, std::uint64_t page, std::byte* into) {
  for_each_lanes(seed, page,
                 [&](std::size_t offset, Lanes words) { std::memcpy(into + offset, &words, sizeof words); });
}

std::size_t count_wrong_bytes(std::uint64_t seed, std::uint64_t page, const std::byte* found) {
  Lanes difference{};
  for_each_lanes(seed, page, [&](std::size_t offset, Lanes words) {
    Lanes there;
    std::memcpy(&there, found + offset, sizeof there);
    difference |= there ^ words;
  });
  if ((difference[0] | difference[1]) == 0) return 0;

  std::size_t wrong = 0;
  for_each_lanes(seed, page, [&](std::size_t offset, Lanes words) {
    const auto* wanted = reinterpret_cast<const std::byte*>(&words);
    for (std::size_t i = 0; i < sizeof words; ++i) wrong += found[offset + i] != wanted[i];
  });
  return wrong;
}

}  // namespace comex::bench

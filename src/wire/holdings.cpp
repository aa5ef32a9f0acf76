#include "wire/holdings.h"

#include <algorithm>
#include <bit>

namespace comex {
namespace {

// Calls f(word, mask) for each 64-bit word that bits [first, first + count) lie in; stops when f returns false.
template <typename F>
bool for_each_word(std::uint32_t first, std::uint32_t count, F&& f) {
  while (count > 0) {
    const std::uint32_t bit = first % 64;
    const std::uint32_t here = std::min(count, 64 - bit);
    const std::uint64_t mask = (here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1) << bit;
    if (!f(first / 64, mask)) return false;
    first += here;
    count -= here;
  }
  return true;
}

}  // namespace

void Holdings::add(const Extent& extent) {
  for_each_slab(extent, slab_order_, [&](std::uint32_t slab, std::uint32_t first, std::uint32_t count) {
    SlabBits& bits = slabs_[slab];
    if (bits.words.empty()) bits.words.resize((slab_frames() + 63) / 64);
    for_each_word(first, count, [&](std::uint32_t word, std::uint64_t mask) {
      bits.words[word] |= mask;
      return true;
    });
    bits.held += count;
    frames_ += count;
    return true;
  });
}

bool Holdings::remove(const Extent& extent) {
  if (!holds(extent)) return false;
  return for_each_slab(extent, slab_order_, [&](std::uint32_t slab, std::uint32_t first, std::uint32_t count) {
    SlabBits& bits = slabs_[slab];
    for_each_word(first, count, [&](std::uint32_t word, std::uint64_t mask) {
      bits.words[word] &= ~mask;
      return true;
    });
    bits.held -= count;
    frames_ -= count;
    if (bits.held == 0) slabs_.erase(slab);
    return true;
  });
}

bool Holdings::holds(const Extent& extent) const {
  return extent.count > 0 &&
         for_each_slab(extent, slab_order_, [&](std::uint32_t slab, std::uint32_t first, std::uint32_t count) {
           const auto found = slabs_.find(slab);
           if (found == slabs_.end()) return false;
           return for_each_word(first, count, [&](std::uint32_t word, std::uint64_t mask) {
             return (found->second.words[word] & mask) == mask;
           });
         });
}

bool Holdings::holds_any_of(const Extent& extent) const {
  return !for_each_slab(extent, slab_order_, [&](std::uint32_t slab, std::uint32_t first, std::uint32_t count) {
    const auto found = slabs_.find(slab);
    return found == slabs_.end() || for_each_word(first, count, [&](std::uint32_t word, std::uint64_t mask) {
             return (found->second.words[word] & mask) == 0;
           });
  });
}

void Holdings::for_each(const std::function<void(Extent)>& f) const {
  for (const auto& [slab, bits] : slabs_) {
    const std::uint32_t base = slab << slab_order_;
    std::uint32_t run = 0;
    for (std::uint32_t i = 0; i <= slab_frames(); ++i) {
      const bool held = i < slab_frames() && (bits.words[i / 64] >> (i % 64) & 1) != 0;
      if (held) {
        ++run;
      } else if (run > 0) {
        f(Extent{FrameNo{base + i - run}, run});
        run = 0;
      }
    }
  }
}

void Holdings::clear() {
  slabs_.clear();
  frames_ = 0;
}

std::size_t Holdings::metadata_bytes() const {
  constexpr std::size_t kMapNode = sizeof(std::pair<std::uint32_t, SlabBits>) + 2 * sizeof(void*);
  return slabs_.size() * (kMapNode + (slab_frames() + 63) / 64 * 8) + slabs_.bucket_count() * sizeof(void*);
}

}  // namespace comex

#include "bench/paging/load_order.h"

namespace comex::bench {

std::string_view to_string(Pattern pattern) {
  switch (pattern) {
    case Pattern::sequential: return "sequential";
    case Pattern::stride: return "stride10";
    case Pattern::random: return "random";
    case Pattern::random_write: return "random-write";
  }
  return "";
}

std::optional<Pattern> parse_pattern(std::string_view text) {
  for (const Pattern pattern : kPatterns) {
    if (to_string(pattern) == text) return pattern;
  }
  return std::nullopt;
}

Permutation::Permutation(std::uint64_t count, std::uint64_t seed) : count_(count) {
  while ((std::uint64_t{1} << (2 * half_bits_)) < count) ++half_bits_;
  half_mask_ = (std::uint64_t{1} << half_bits_) - 1;
  for (std::uint64_t& key : keys_) key = seed = mix(seed + 1);
}

std::uint64_t Permutation::shuffle(std::uint64_t index) const {
  std::uint64_t left = index >> half_bits_;
  std::uint64_t right = index & half_mask_;
  for (const std::uint64_t key : keys_) {
    const std::uint64_t next = left ^ (mix(right ^ key) & half_mask_);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

PageOrder::PageOrder(Pattern pattern, std::uint64_t count, std::uint64_t seed)
    : pattern_(pattern), count_(count), permutation_(count, seed) {}

std::uint64_t PageOrder::next() {
  switch (pattern_) {
    case Pattern::sequential: return index_++;
    case Pattern::stride: {
      const std::uint64_t page = stride_page_;
      stride_page_ += kStride;
      if (stride_page_ >= count_) stride_page_ = ++stride_start_;
      return page;
    }
    case Pattern::random:
    case Pattern::random_write: return permutation_.at(index_++);
  }
  return 0;
}

}  // namespace comex::bench

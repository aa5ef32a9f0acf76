// A queue of blocks: first in, first out. A ring that is as long as there ever were blocks in it at one time: what it
// touches is local memory that the program does not get.
//
// Thread safety: none. Fault path: all functions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "pager/memory.h"
#include "pager/page.h"

namespace comex {

class BlockQueue {
 public:
  // For up to `most` blocks at one time. REQUIRES: there is memory.
  BlockQueue(Memory& memory, std::uint64_t most)
      : capacity_(std::bit_ceil(std::max(most, kShortest))),
        blocks_(reinterpret_cast<BlockNo*>(memory.own(capacity_ * sizeof(BlockNo)))) {}

  void push(BlockNo block) noexcept {
    if (count_ == length_ && length_ < capacity_) lengthen();
    blocks_[(first_ + count_) % length_] = block;
    ++count_;
  }
  std::optional<BlockNo> pop() noexcept {
    if (count_ == 0) return std::nullopt;
    const BlockNo block = blocks_[first_];
    first_ = (first_ + 1) % length_;
    --count_;
    return block;
  }

 private:
  static constexpr std::uint64_t kShortest = kPageSize / sizeof(BlockNo);

  // REQUIRES: it is full. What has gone round to the beginning comes behind the old end.
  void lengthen() noexcept {
    std::copy_n(blocks_, first_, blocks_ + length_);
    length_ *= 2;
  }

  const std::uint64_t capacity_;
  BlockNo* const blocks_;
  std::uint64_t length_ = kShortest;
  std::uint64_t first_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace comex

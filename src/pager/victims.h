// Which block goes next: the eviction policies' interface, and the simplest of them.
//
// A policy knows blocks, not pages: the pager tells it when a block gets its first local page, and asks it for a block
// to take. A block is known to a policy at most once (Entry::kQueued). What comes out may have no local page left; the
// pager looks.
//
// Thread safety: all functions from any thread. Fault path: all of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/mutex.h"
#include "pager/memory.h"
#include "pager/page.h"

namespace comex {

class Victims {
 public:
  virtual ~Victims() = default;
  // A block has a local page. REQUIRES: the policy does not know it.
  virtual void admit(BlockNo block) noexcept = 0;
  // The next to go. The policy does not know it any more.
  virtual std::optional<BlockNo> next() noexcept = 0;
};

// First in, first out. Good for scans; blind to what is used again and again. A ring that is as long as there ever were
// blocks in it at one time: what it touches is local memory that the program does not get.
class Fifo final : public Victims {
 public:
  // For programs with up to `most` blocks that have a local page at one time. nullptr memory: has_room() is false.
  Fifo(Memory& memory, std::uint64_t most)
      : capacity_(std::bit_ceil(std::max(most, kShortest))),
        blocks_(reinterpret_cast<BlockNo*>(memory.own(capacity_ * sizeof(BlockNo)))) {}
  [[nodiscard]] bool has_room() const noexcept { return blocks_ != nullptr; }

  void admit(BlockNo block) noexcept override {
    const std::lock_guard lock(mutex_);
    if (count_ == length_ && length_ < capacity_) lengthen();
    blocks_[(first_ + count_) % length_] = block;
    ++count_;
  }
  std::optional<BlockNo> next() noexcept override {
    const std::lock_guard lock(mutex_);
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

  Mutex mutex_;  // guards all below
  const std::uint64_t capacity_;
  BlockNo* const blocks_;
  std::uint64_t length_ = kShortest;
  std::uint64_t first_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace comex

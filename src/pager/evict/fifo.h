// First in, first out, by whole blocks: takes the most pages at a time and keeps neighbours together, and is blind to
// what is used again and again.
#pragma once

#include <mutex>

#include "base/mutex.h"
#include "pager/evict/block_queue.h"
#include "pager/evict/victims.h"

namespace comex {

class Fifo final : public Victims {
 public:
  Fifo(Memory& memory, std::uint64_t most) : blocks_(memory, most) {}

  void admit(BlockNo block, unsigned) noexcept override {
    const std::lock_guard lock(mutex_);
    blocks_.push(block);
  }
  std::optional<Victim> next(bool) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.pop();
    return block ? std::optional(Victim{*block}) : std::nullopt;
  }

 private:
  Mutex mutex_;  // guards all below
  BlockQueue blocks_;
};

}  // namespace comex

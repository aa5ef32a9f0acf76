// The directory of this client: which node an id in a page-table entry belongs to.
//
// The first ids are the configured nodes, in order. A node that loses our frames gets one more id for its next session
// and keeps the old one, dead: see pool/location.h. Ids are never used again.
//
// Thread safety: all functions from any thread. Fault path: member_of().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "pool/location.h"

namespace comex {

class Directory {
 public:
  // REQUIRES: capacity <= UINT16_MAX, so that kNowhere stays free.
  explicit Directory(std::uint16_t capacity)
      : capacity_(capacity), members_(std::make_unique<std::uint16_t[]>(capacity)) {}

  // A new id for the node at this position of the configuration; nothing when all are used up.
  std::optional<NodeId> enlist(std::size_t member) {
    const std::lock_guard lock(mutex_);
    const std::uint16_t id = size_.load(std::memory_order_relaxed);
    if (id == capacity_) return std::nullopt;
    members_[id] = static_cast<std::uint16_t>(member);
    size_.store(static_cast<std::uint16_t>(id + 1), std::memory_order_release);  // the entry before the size
    return NodeId{id};
  }

  [[nodiscard]] std::optional<std::size_t> member_of(NodeId id) const noexcept {
    if (id.value >= size_.load(std::memory_order_acquire)) return std::nullopt;
    return members_[id.value];
  }

 private:
  const std::uint16_t capacity_;
  std::mutex mutex_;  // orders writers; an entry is never changed once size_ covers it
  std::unique_ptr<std::uint16_t[]> members_;
  std::atomic<std::uint16_t> size_{0};
};

}  // namespace comex

// The free extents at hand from one node: frames the node has granted and nobody uses yet. This is where an evicted
// page gets its frame without a call to the node.
//
// Thread safety: all functions from any thread; one mutex, held for the update of a few words (a look through the whole
// list when the current extent cannot give what is wanted).
// Fault path: all functions; nothing is allocated after construction.
//
// Invariants:
//  1. Every extent in the list was granted by the session that owner() names. The check is made under the mutex, so a
//     frame of a lost session can neither be taken under the next one's id nor be added to it.
//  2. frames() is the sum of the extents' counts; taken() is the frames taken in this session and not put back.
//  3. No extent crosses a slab.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "pool/location.h"

namespace comex {

class ExtentList {
 public:
  // The list holds up to `capacity` extents.
  explicit ExtentList(std::uint32_t capacity);

  struct Taken {
    Run run;
    std::uint32_t left = 0;  // frames in the list after this
  };
  // A run of up to `want` frames: all of `want` from one extent if any has them, otherwise the largest there is.
  // Nothing if the list is empty or `want` is 0.
  std::optional<Taken> take(std::uint32_t want) noexcept;

  // Frames freshly granted to `owner`. False, and nothing happens, if the list is full or belongs to another session.
  bool add(NodeId owner, Extent extent) noexcept;
  // Frames that were taken and turned out not to be needed. As add().
  bool put_back(const Run& run) noexcept;

  // Moves extents out, to be given back to the node, as long as `keep` frames stay. Not for the fault path: `out`
  // grows.
  void drain(std::vector<Extent>& out, std::uint32_t keep = 0);
  // ... those that `wanted` says.
  template <typename Wanted>
  void drain_if(std::vector<Extent>& out, Wanted&& wanted) {
    out.reserve(out.size() + capacity_);
    const std::lock_guard lock(mutex_);
    std::uint32_t kept = 0;
    std::uint32_t drained = 0;
    for (std::uint32_t i = 0; i < size_; ++i) {
      const Extent extent = extents_[i];
      if (wanted(extent)) {
        out.push_back(extent);
        drained += extent.count;
      } else {
        extents_[kept++] = extent;
      }
    }
    size_ = kept;
    current_ = 0;
    frames_.store(frames_.load(std::memory_order_relaxed) - drained, std::memory_order_relaxed);
  }
  // Drops everything; from now on the list belongs to `owner`, whose slabs have 2^slab_order frames. Returns taken() of
  // the session that ended.
  std::uint64_t reset(NodeId owner, unsigned slab_order) noexcept;

  [[nodiscard]] std::uint32_t frames() const noexcept { return frames_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t taken() const noexcept;

 private:
  // The extent to carve `want` from. REQUIRES: size_ > 0.
  [[nodiscard]] std::uint32_t pick(std::uint32_t want) const noexcept;
  bool insert(NodeId owner, Extent extent) noexcept;
  bool grow_current(Extent extent) noexcept;

  const std::uint32_t capacity_;
  mutable std::mutex mutex_;  // guards all below; innermost: nothing is locked or called under it
  NodeId owner_ = kNowhere;
  unsigned slab_order_ = 0;
  std::unique_ptr<Extent[]> extents_;
  std::uint32_t size_ = 0;
  std::uint32_t current_ = 0;  // carved last: consecutive takes get consecutive frames
  std::uint64_t taken_ = 0;
  std::atomic<std::uint32_t> frames_{0};  // written under the mutex; read without it as a hint
};

}  // namespace comex

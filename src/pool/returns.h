// Frames on their way back to one node. The pager lets go of frames one by one and all over the place; here they are
// collected, and leave sorted, merged into extents, in messages of many.
//
// Thread safety: put() from any thread; due_at(), take_batch() and reset() from any, in practice the node's keeper.
// Fault path: put(). It appends to memory reserved at construction; the kernel backs it as it is first touched, so a
// large capacity costs nothing until it is used. After a peak take_batch() hands the memory back.
//
// Invariants:
//  1. Everything collected belongs to the session that the owner id names: checked under the mutex, so that a frame of
//     a lost session is never given back under the next one, where it may be somebody's page.
//  2. No extent that leaves crosses a slab, and no two of one batch overlap.
//  3. Nothing is dropped but what does not fit: stranded() counts it. Stranded frames return when the session ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "pool/location.h"

namespace comex {

struct ReturnsConfig {
  std::uint32_t batch = 1024;        // extents: enough to make a call's cost vanish, few enough to be prompt
  Millis age{100};                   // a frame waits no longer than this for company
  std::uint32_t capacity = 1 << 20;  // extents: a program that unmaps gigabytes at once must not wait for the node
};

class Returns {
 public:
  explicit Returns(const ReturnsConfig& config);
  ~Returns();
  Returns(const Returns&) = delete;
  Returns& operator=(const Returns&) = delete;

  // Takes the frames in. True if the sender should be told: these are the first, or a batch is complete. Frames of
  // another session than the current are ignored: their node has taken them back already.
  bool put(const Run& run) noexcept;

  // When the next batch should leave; nothing if there is nothing.
  [[nodiscard]] std::optional<Clock::time_point> due_at() const;
  // The next batch, sorted and merged, at most as many extents as fit one message. Empty if there is nothing.
  void take_batch(std::vector<Extent>& out);
  // Forgets everything; from now on for `owner`, whose slabs have 2^slab_order frames. Returns how many frames the
  // session that ended has given back in all.
  std::uint64_t reset(NodeId owner, unsigned slab_order) noexcept;

  [[nodiscard]] std::uint64_t returned() const;  // frames taken in, in this session
  [[nodiscard]] std::uint64_t stranded() const;

 private:
  bool extend_last(Extent extent) noexcept;

  const ReturnsConfig config_;
  mutable std::mutex mutex_;  // guards all below; innermost
  NodeId owner_ = kNowhere;
  unsigned slab_order_ = 0;
  Extent* extents_;  // mapped, config_.capacity of them
  std::uint32_t size_ = 0;
  std::uint32_t touched_ = 0;  // the most there were since memory was last handed back
  Clock::time_point oldest_{};
  std::uint64_t returned_ = 0;
  std::uint64_t stranded_ = 0;
};

// Sorts, merges neighbours within a slab and drops what is there twice. Exposed for its test.
void sort_and_merge(std::vector<Extent>& extents, unsigned slab_order);

}  // namespace comex

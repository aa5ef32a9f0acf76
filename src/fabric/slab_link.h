// What the links have in common that reach frames by the slab: ShmLink maps slabs, RdmaLink gets their keys.
//
// Invariant: a slab is open exactly while held_[slab] > 0. The node replaces the memory of a slab, or its key, only
// when nobody holds a frame of it, so what is open here is never the memory of a slab's former life.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "fabric/channel_link.h"

namespace comex {

class SlabLink : public ChannelLink {
 public:
  Expected<void> reach(std::span<const Extent> extents) final;
  void forget(std::span<const Extent> extents) noexcept final;

 protected:
  SlabLink(Opened opened, const LinkOptions& options);
  [[nodiscard]] std::size_t slabs() const { return held_.size(); }

  // Both under reach_mutex_. At most wire::kMaxSlabsPerMap at a time; all of them, or an error.
  virtual Expected<void> open_slabs(std::span<const std::uint32_t> slabs) = 0;
  virtual void close_slab(std::uint32_t slab) noexcept = 0;

 private:
  std::mutex reach_mutex_;           // guards held_ and what is open; taken by reach and forget only
  std::vector<std::uint32_t> held_;  // frames held, by slab
};

}  // namespace comex

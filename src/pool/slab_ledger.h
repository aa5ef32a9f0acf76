// How many frames of each slab a session holds. A link that resumes a session starts without knowing what the client
// holds; over shared memory it has to map those slabs again, and to count right when to let go of them (see
// fabric/shm_link.h). The page table knows every frame but belongs to another layer; 4 bytes a slab are enough here.
//
// Thread safety: none; belongs to the keeper.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fabric/link.h"

namespace comex {

class SlabLedger {
 public:
  // A new session: nothing is held.
  void begin(const NodeInfo& node) {
    order_ = node.slab_order;
    held_.assign((std::uint64_t{node.frames} >> order_) + 1, 0);
  }
  void granted(const Extent& extent) { at(extent) += extent.count; }
  void returned(const Extent& extent) { at(extent) -= std::min(at(extent), extent.count); }

  // For Link::reach: one extent per slab of which frames are held, with as many frames as are held. Which frames they
  // are does not matter to it.
  [[nodiscard]] std::vector<Extent> to_reach() const {
    std::vector<Extent> extents;
    for (std::uint32_t slab = 0; slab < held_.size(); ++slab) {
      if (held_[slab] > 0) extents.push_back(Extent{FrameNo{slab << order_}, held_[slab]});
    }
    return extents;
  }

 private:
  // Extents do not cross slabs; one beyond the arena would be the node's mistake and ends up in a cell nobody reads.
  std::uint32_t& at(const Extent& extent) {
    const std::size_t slab = extent.first.value >> order_;
    return slab < held_.size() ? held_[slab] : stray_;
  }

  unsigned order_ = 0;
  std::vector<std::uint32_t> held_;
  std::uint32_t stray_ = 0;
};

}  // namespace comex

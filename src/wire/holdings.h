// Which frames of a node somebody holds: a bitmap per slab of which there are some. A node keeps one for each client,
// the keeper of a program one for each process and node.
//
// Thread safety: none; at the node see Client::access.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "wire/types.h"

namespace comex {

class Holdings {
 public:
  explicit Holdings(unsigned slab_order) : slab_order_(slab_order) {}

  // REQUIRES: none of these frames is held. The extent may span slabs.
  void add(const Extent& extent);
  // Removes all of them, or nothing and returns false if one is not held.
  bool remove(const Extent& extent);
  [[nodiscard]] bool holds(const Extent& extent) const;
  [[nodiscard]] bool holds_any_of(const Extent& extent) const;
  [[nodiscard]] bool holds_any_of_slab(std::uint32_t slab) const { return slabs_.contains(slab); }
  [[nodiscard]] std::uint32_t frames_of_slab(std::uint32_t slab) const {
    const auto found = slabs_.find(slab);
    return found == slabs_.end() ? 0 : found->second.held;
  }
  [[nodiscard]] std::uint32_t frames() const { return frames_; }
  // Calls f with maximal runs of held frames, each within one slab.
  void for_each(const std::function<void(Extent)>& f) const;
  void clear();
  [[nodiscard]] std::size_t metadata_bytes() const;

 private:
  struct SlabBits {
    std::uint32_t held = 0;
    std::vector<std::uint64_t> words;
  };
  [[nodiscard]] std::uint32_t slab_frames() const { return std::uint32_t{1} << slab_order_; }

  unsigned slab_order_;
  std::uint32_t frames_ = 0;
  std::unordered_map<std::uint32_t, SlabBits> slabs_;
};

}  // namespace comex

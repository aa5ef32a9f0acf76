// The names of things: nodes, frames, extents, clients. Values, never bare integers.
// Everything here is trivially copyable and may be used on the fault path.
#pragma once

#include <compare>
#include <cstdint>

#include "base/units.h"

namespace comex {

// A memory node's 16-bit id.
struct NodeId {
  std::uint16_t value = 0;
  friend constexpr auto operator<=>(NodeId, NodeId) = default;
};

// A 4 KiB frame of one memory node, counted from the start of its arena. 32 bits: up to 16 TiB a node.
struct FrameNo {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(FrameNo, FrameNo) = default;
  friend constexpr FrameNo operator+(FrameNo frame, std::uint32_t n) { return FrameNo{frame.value + n}; }
};

// A run of contiguous frames on one node. Extents never cross a slab (see node/arena.h).
struct Extent {
  FrameNo first;
  std::uint32_t count = 0;
  [[nodiscard]] constexpr std::uint64_t end() const { return std::uint64_t{first.value} + count; }
  [[nodiscard]] constexpr std::uint64_t bytes() const { return std::uint64_t{count} << kPageShift; }
  friend constexpr bool operator==(const Extent&, const Extent&) = default;
};

// Calls f(slab, first frame within the slab, frames of it) for each slab of 2^slab_order frames that the extent lies
// in. Stops, and returns false, when f does.
template <typename F>
constexpr bool for_each_slab(const Extent& extent, unsigned slab_order, F&& f) {
  std::uint64_t at = extent.first.value;
  while (at < extent.end()) {
    const std::uint64_t slab = at >> slab_order;
    const std::uint64_t begin = slab << slab_order;
    const std::uint64_t slab_end = begin + (std::uint64_t{1} << slab_order);
    const std::uint64_t stop = extent.end() < slab_end ? extent.end() : slab_end;
    const auto first = static_cast<std::uint32_t>(at - begin);
    if (!f(static_cast<std::uint32_t>(slab), first, static_cast<std::uint32_t>(stop - at))) return false;
    at = stop;
  }
  return true;
}

// One user of the pool, as one node knows it. Unique for the life of the node's process; 0 is nobody.
struct ClientId {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(ClientId, ClientId) = default;
};

// The smallest extent a node hands out unless asked for less: 2^7 frames.
inline constexpr unsigned kUsualMinOrder = 7;

}  // namespace comex

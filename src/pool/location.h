// Where a page is: a frame of a node, as this client knows them.
//
// NodeId here is an index of this client's directory (see pool/directory.h), not the NID a node has for others: it is
// what a page-table entry keeps. A session with a node has an id of its own. When a node loses our frames its id is
// dead for ever and the next session gets another, so that an old Location can never be taken for a new one.
//
// Values: trivially copyable, usable on the fault path.
#pragma once

#include <cstdint>

#include "wire/types.h"

namespace comex {

// Never an index of the directory.
inline constexpr NodeId kNowhere{UINT16_MAX};
// Nor this: a page that is made of others, which is what its frame number says.
inline constexpr NodeId kMade{UINT16_MAX - 1};

struct Location {
  NodeId node;
  FrameNo frame;
  friend constexpr bool operator==(const Location&, const Location&) = default;
};

// Contiguous frames of one node. Like an Extent it never crosses a slab.
struct Run {
  NodeId node;
  FrameNo first;
  std::uint32_t count = 0;

  [[nodiscard]] constexpr Extent extent() const { return Extent{first, count}; }
  // REQUIRES: i < count.
  [[nodiscard]] constexpr Location at(std::uint32_t i) const { return Location{node, first + i}; }
  // The frames from the i-th on. REQUIRES: i <= count.
  [[nodiscard]] constexpr Run from(std::uint32_t i) const { return Run{node, first + i, count - i}; }
  friend constexpr bool operator==(const Run&, const Run&) = default;
};

static_assert(sizeof(Location) == 8 && sizeof(Run) == 12);

}  // namespace comex

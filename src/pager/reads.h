// Pages that are read together, wherever they are: one transfer for each node that has some of them, all under way at
// once.
//
// Thread safety: none; whoever has it. Fault path: all of it; nothing is allocated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "base/units.h"
#include "pool/frames.h"

namespace comex {

// A few nodes.
class NodeSet {
 public:
  static constexpr std::uint32_t kMost = 8;

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] NodeId operator[](std::uint32_t i) const noexcept { return nodes_[i]; }
  // count() if it is not there.
  [[nodiscard]] std::uint32_t index_of(NodeId node) const noexcept {
    std::uint32_t i = 0;
    while (i < count_ && nodes_[i] != node) ++i;
    return i;
  }
  // False if it is not there and there are too many.
  bool insert(NodeId node) noexcept {
    if (index_of(node) < count_) return true;
    if (count_ == kMost) return false;
    nodes_[count_++] = node;
    return true;
  }
  void clear() noexcept { count_ = 0; }

 private:
  std::uint32_t count_ = 0;
  std::array<NodeId, kMost> nodes_;
};

template <std::uint32_t kPages>
class Reads {
 public:
  Reads() = default;
  Reads(const Reads&) = delete;
  Reads& operator=(const Reads&) = delete;

  // To be filled anew. REQUIRES: nothing is under way.
  void clear() noexcept {
    count_ = 0;
    nodes_.clear();
  }
  // False if it is one too many, or they are on too many nodes. REQUIRES: not begun.
  bool add(Location place, std::byte* into) noexcept {
    if (count_ == kPages || !nodes_.insert(place.node)) return false;
    pages_[count_++] = Page{place.frame, static_cast<std::uint8_t>(nodes_.index_of(place.node)), into};
    return true;
  }
  [[nodiscard]] std::uint32_t pages() const noexcept { return count_; }
  [[nodiscard]] const NodeSet& nodes() const noexcept { return nodes_; }

  // What is made of others comes last: that is waited for here.
  void begin(Frames& frames, Priority priority) noexcept {
    std::size_t used = 0;
    for (std::uint32_t node = 0; node < nodes_.count(); ++node) {
      const std::size_t first = used;
      for (std::uint32_t i = 0; i < count_; ++i) {
        if (pages_[i].node == node) used = append(pages_[i], first, used);
      }
      new (&transfers_[node]) Transfer(Direction::read, std::span(segments_).subspan(first, used - first), priority);
      if (nodes_[node] != kMade) frames.submit(nodes_[node], transfers_[node]);
    }
    const std::uint32_t made = nodes_.index_of(kMade);
    if (made < nodes_.count()) frames.submit(kMade, transfers_[made]);
  }
  // --- REQUIRES: begun ---
  [[nodiscard]] bool done() const noexcept {
    for (std::uint32_t node = 0; node < nodes_.count(); ++node) {
      if (!transfers_[node].done()) return false;
    }
    return true;
  }
  // ok if all are.
  Errc wait(Frames& frames) noexcept {
    Errc result = Errc::ok;
    for (std::uint32_t node = 0; node < nodes_.count(); ++node) {
      Transfer& transfer = transfers_[node];
      const Errc its = transfer.done() ? transfer.result() : frames.wait(nodes_[node], transfer);
      if (result == Errc::ok) result = its;
    }
    return result;
  }

 private:
  struct Page {
    FrameNo frame;
    std::uint8_t node = 0;  // which of nodes_
    std::byte* into = nullptr;
  };

  // Frames that follow one another, into memory that does, are one segment.
  std::size_t append(const Page& page, std::size_t first, std::size_t used) noexcept {
    Segment* const last = used > first ? &segments_[used - 1] : nullptr;
    if (last != nullptr && last->first + last->count == page.frame &&
        last->local + last->count * kPageSize == page.into) {
      ++last->count;
      return used;
    }
    segments_[used] = Segment{page.frame, 1, page.into};
    return used + 1;
  }

  std::uint32_t count_ = 0;
  NodeSet nodes_;
  std::array<Page, kPages> pages_;
  std::array<Segment, kPages> segments_;
  std::array<Transfer, NodeSet::kMost> transfers_;
};

}  // namespace comex

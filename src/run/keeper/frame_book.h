// Which frames the processes of a program hold. The pool has lent them to the keeper; here is who of its processes uses
// them, and how many: after fork a frame has several holders.
//
// Thread safety: none; belongs to the keeper's loop.
//
// Invariants:
//  1. The count of a frame is the number of holders whose holdings contain it.
//  2. A frame is handed to `free` exactly when its count becomes 0, and by nothing else: it is never free while
//     somebody holds it, and never freed twice.
//
// Counts are kept where frames have several holders: elsewhere a bit says that there is one.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "pool/location.h"
#include "wire/holdings.h"

namespace comex {

class FrameBook {
 public:
  // What one process holds, by node.
  class Holder {
   public:
    [[nodiscard]] std::uint64_t frames() const;
    [[nodiscard]] std::uint64_t frames_of(NodeId node) const;
    [[nodiscard]] bool holds_any_of(NodeId node, std::uint32_t slab) const;

   private:
    friend class FrameBook;
    std::unordered_map<std::uint16_t, Holdings> nodes_;
  };
  using Free = std::function<void(const Run&)>;

  // A session with a node. REQUIRES: not open.
  void open(NodeId node, std::uint32_t frames, unsigned slab_order);
  // The session is lost: its frames are nobody's. Each holder has to forget() it as well.
  void close(NodeId node) { nodes_.erase(node.value); }
  static void forget(Holder& holder, NodeId node) { holder.nodes_.erase(node.value); }
  [[nodiscard]] bool is_open(NodeId node) const { return nodes_.contains(node.value); }

  // A frame that nobody holds gets its first holder. False, and nothing happens, if somebody holds one of them or there
  // are no such frames: that would be the pool's mistake.
  bool grant(Holder& holder, const Run& run);
  // False, and nothing happens, if one of them is not held.
  bool give_back(Holder& holder, const Run& run, const Free& free);
  // `heir` comes to hold what `parent` holds. REQUIRES: it holds nothing.
  void inherit(const Holder& parent, Holder& heir);
  // Everything of one node, and everything.
  void release(Holder& holder, NodeId node, const Free& free);
  void release(Holder& holder, const Free& free);

 private:
  struct Node {
    // Holders beside the first, by frame, for the slabs of which there are any.
    struct Slab {
      std::uint32_t sum = 0;
      std::vector<std::uint16_t> others;
    };
    std::uint32_t frames = 0;
    unsigned slab_order = 0;
    Holdings held;  // by anybody
    std::unordered_map<std::uint32_t, Slab> shared;
  };
  // One holder more. REQUIRES: somebody holds all of it.
  static void share(Node& node, const Extent& extent);
  // One less. Calls free with the runs that nobody holds any more.
  static void drop(NodeId id, Node& node, const Extent& extent, const Free& free);
  static void drop_shared(NodeId id, Node& node, Node::Slab& slab, const Extent& extent, const Free& free);
  static void drop_last(NodeId id, Node& node, const Extent& extent, const Free& free);

  std::unordered_map<std::uint16_t, Node> nodes_;
};

}  // namespace comex

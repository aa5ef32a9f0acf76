#include "run/keeper/frame_book.h"

#include <algorithm>

namespace comex {

std::uint64_t FrameBook::Holder::frames() const {
  std::uint64_t sum = 0;
  for (const auto& [id, held] : nodes_) sum += held.frames();
  return sum;
}

std::uint64_t FrameBook::Holder::frames_of(NodeId node) const {
  const auto found = nodes_.find(node.value);
  return found == nodes_.end() ? 0 : found->second.frames();
}

bool FrameBook::Holder::holds_any_of(NodeId node, std::uint32_t slab) const {
  const auto found = nodes_.find(node.value);
  return found != nodes_.end() && found->second.holds_any_of_slab(slab);
}

void FrameBook::open(NodeId node, std::uint32_t frames, unsigned slab_order) {
  nodes_[node.value] = Node{frames, slab_order, {}};
}

void FrameBook::add(Node& node, const Extent& extent) {
  for_each_slab(extent, node.slab_order, [&](std::uint32_t index, std::uint32_t first, std::uint32_t count) {
    Node::Slab& slab = node.slabs[index];
    if (slab.holders.empty()) slab.holders.resize(std::size_t{1} << node.slab_order);
    for (std::uint32_t i = first; i < first + count; ++i) ++slab.holders[i];
    slab.held += count;
    return true;
  });
}

void FrameBook::subtract(NodeId id, Node& node, const Extent& extent, const Free& free) {
  for_each_slab(extent, node.slab_order, [&](std::uint32_t index, std::uint32_t first, std::uint32_t count) {
    Node::Slab& slab = node.slabs[index];
    const std::uint32_t begin = index << node.slab_order;
    std::uint32_t run = first;  // where the current run of freed frames began
    for (std::uint32_t i = first; i < first + count; ++i) {
      if (--slab.holders[i] == 0) continue;
      if (i > run) free(Run{id, FrameNo{begin + run}, i - run});
      run = i + 1;
    }
    if (first + count > run) free(Run{id, FrameNo{begin + run}, first + count - run});
    slab.held -= count;
    if (slab.held == 0) node.slabs.erase(index);
    return true;
  });
}

bool FrameBook::grant(Holder& holder, const Run& run) {
  const auto found = nodes_.find(run.node.value);
  if (found == nodes_.end()) return false;
  Node& node = found->second;
  const Extent extent = run.extent();
  if (extent.count == 0 || extent.end() > node.frames) return false;
  const bool nobodys =
      for_each_slab(extent, node.slab_order, [&](std::uint32_t index, std::uint32_t first, std::uint32_t count) {
        const auto slab = node.slabs.find(index);
        if (slab == node.slabs.end()) return true;
        const auto begin = slab->second.holders.begin() + first;
        return std::all_of(begin, begin + count, [](std::uint16_t holders) { return holders == 0; });
      });
  if (!nobodys) return false;
  holder.nodes_.try_emplace(run.node.value, node.slab_order).first->second.add(extent);
  add(node, extent);
  return true;
}

bool FrameBook::give_back(Holder& holder, const Run& run, const Free& free) {
  const auto held = holder.nodes_.find(run.node.value);
  const auto node = nodes_.find(run.node.value);
  if (held == holder.nodes_.end() || node == nodes_.end()) return false;
  const Extent extent = run.extent();
  if (extent.count == 0 || extent.end() > node->second.frames || !held->second.remove(extent)) return false;
  subtract(run.node, node->second, extent, free);
  return true;
}

void FrameBook::inherit(const Holder& parent, Holder& heir) {
  heir.nodes_ = parent.nodes_;
  for (const auto& [id, held] : heir.nodes_) {
    const auto node = nodes_.find(id);
    if (node != nodes_.end()) held.for_each([&](Extent extent) { add(node->second, extent); });
  }
}

void FrameBook::release(Holder& holder, NodeId node, const Free& free) {
  const auto held = holder.nodes_.find(node.value);
  const auto there = nodes_.find(node.value);
  if (held == holder.nodes_.end()) return;
  if (there != nodes_.end()) {
    held->second.for_each([&](Extent extent) { subtract(node, there->second, extent, free); });
  }
  holder.nodes_.erase(held);
}

void FrameBook::release(Holder& holder, const Free& free) {
  while (!holder.nodes_.empty()) release(holder, NodeId{holder.nodes_.begin()->first}, free);
}

}  // namespace comex

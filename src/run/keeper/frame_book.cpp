#include "run/keeper/frame_book.h"

namespace comex {
namespace {

// What anybody holds is told in long pieces, whatever the slabs are: nobody asks for it slab by slab.
constexpr unsigned kHeldOrder = 12;

}  // namespace

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
  nodes_.insert_or_assign(node.value, Node{frames, slab_order, Holdings(kHeldOrder), {}});
}

void FrameBook::share(Node& node, const Extent& extent) {
  for_each_slab(extent, node.slab_order, [&](std::uint32_t index, std::uint32_t first, std::uint32_t count) {
    Node::Slab& slab = node.shared[index];
    if (slab.others.empty()) slab.others.resize(std::size_t{1} << node.slab_order);
    for (std::uint32_t i = first; i < first + count; ++i) ++slab.others[i];
    slab.sum += count;
    return true;
  });
}

void FrameBook::drop(NodeId id, Node& node, const Extent& extent, const Free& free) {
  for_each_slab(extent, node.slab_order, [&](std::uint32_t index, std::uint32_t first, std::uint32_t count) {
    const Extent part{FrameNo{(index << node.slab_order) + first}, count};
    const auto slab = node.shared.find(index);
    if (slab == node.shared.end()) {
      drop_last(id, node, part, free);
    } else {
      drop_shared(id, node, slab->second, part, free);
      if (slab->second.sum == 0) node.shared.erase(slab);
    }
    return true;
  });
}

void FrameBook::drop_shared(NodeId id, Node& node, Node::Slab& slab, const Extent& extent, const Free& free) {
  const std::uint32_t first = extent.first.value & ((std::uint32_t{1} << node.slab_order) - 1);
  std::uint32_t run = 0;  // of frames that nobody else holds
  for (std::uint32_t i = 0; i <= extent.count; ++i) {
    if (i < extent.count && slab.others[first + i] == 0) {
      ++run;
      continue;
    }
    drop_last(id, node, Extent{FrameNo{extent.first.value + i - run}, run}, free);
    run = 0;
    if (i == extent.count) return;
    --slab.others[first + i];
    --slab.sum;
  }
}

void FrameBook::drop_last(NodeId id, Node& node, const Extent& extent, const Free& free) {
  if (node.held.remove(extent)) free(Run{id, extent.first, extent.count});
}

bool FrameBook::grant(Holder& holder, const Run& run) {
  const auto found = nodes_.find(run.node.value);
  if (found == nodes_.end()) return false;
  Node& node = found->second;
  const Extent extent = run.extent();
  if (extent.count == 0 || extent.end() > node.frames || node.held.holds_any_of(extent)) return false;
  holder.nodes_.try_emplace(run.node.value, node.slab_order).first->second.add(extent);
  node.held.add(extent);
  return true;
}

bool FrameBook::give_back(Holder& holder, const Run& run, const Free& free) {
  const auto held = holder.nodes_.find(run.node.value);
  const auto node = nodes_.find(run.node.value);
  if (held == holder.nodes_.end() || node == nodes_.end()) return false;
  const Extent extent = run.extent();
  if (extent.count == 0 || extent.end() > node->second.frames || !held->second.remove(extent)) return false;
  drop(run.node, node->second, extent, free);
  return true;
}

void FrameBook::inherit(const Holder& parent, Holder& heir) {
  heir.nodes_ = parent.nodes_;
  for (const auto& [id, held] : heir.nodes_) {
    const auto node = nodes_.find(id);
    if (node != nodes_.end()) held.for_each([&](Extent extent) { share(node->second, extent); });
  }
}

void FrameBook::release(Holder& holder, NodeId node, const Free& free) {
  const auto held = holder.nodes_.find(node.value);
  const auto there = nodes_.find(node.value);
  if (held == holder.nodes_.end()) return;
  if (there != nodes_.end()) {
    held->second.for_each([&](Extent extent) { drop(node, there->second, extent, free); });
  }
  holder.nodes_.erase(held);
}

void FrameBook::release(Holder& holder, const Free& free) {
  while (!holder.nodes_.empty()) release(holder, NodeId{holder.nodes_.begin()->first}, free);
}

}  // namespace comex

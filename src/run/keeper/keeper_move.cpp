// Places that nodes want to have back while the program uses them: their chunks get others, and when nobody can read
// from the old any more they are given back. See "Moving" in docs/design-notes.md.
#include <algorithm>
#include <set>

#include "run/keeper/keeper_server.h"

namespace comex {

namespace {

constexpr Millis kLookForRoom{500};
constexpr std::size_t kMovesAtOnce = 16;

}  // namespace

void KeeperServer::hear_asked(Node& node, std::vector<std::uint32_t> slabs) {
  std::sort(slabs.begin(), slabs.end());
  if (slabs == node.asked) return;
  node.asked = std::move(slabs);
  store_->look_again();
  leaving_.clear();
  mend_at_ = Clock::now();
}

bool KeeperServer::is_asked(const Node& node, FrameNo frame) {
  return std::binary_search(node.asked.begin(), node.asked.end(), frame.value >> node.info.slab_order);
}

// The place of the chunk that a node wants to have back.
std::optional<Run> KeeperServer::asked_place(ChunkNo chunk) const {
  if (store_->size(chunk) == 0) return std::nullopt;
  const Places places = store_->places(chunk);
  for (std::uint32_t i = 0; i < places.count; ++i) {
    const auto node = nodes_.find(places.at[i].node.value);
    if (node == nodes_.end() || !is_asked(node->second, places.at[i].frame)) continue;
    return Run{places.at[i].node, places.at[i].frame, store_->length(chunk)};
  }
  return std::nullopt;
}

Places KeeperServer::other_places(ChunkNo chunk, const Run& than) const {
  Places others;
  const Places places = store_->places(chunk);
  for (std::uint32_t i = 0; i < places.count; ++i) {
    if (places.at[i] != than.at(0)) others.at[others.count++] = places.at[i];
  }
  return others;
}

void KeeperServer::find_leaving() {
  leaving_.clear();
  for (const auto& [id, node] : nodes_) {
    if (node.asked.empty() || !node.standing) continue;
    for (const ChunkNo chunk : store_->in_slabs(node.id, node.info.slab_order, node.asked)) leaving_.push_back(chunk);
  }
}

void KeeperServer::seal_leaving() {
  if (leaving_.empty() && mending_.empty()) find_leaving();
  stuck_ = false;
  std::set<std::uint16_t> no_room;  // nodes whose chunks have nowhere to go: others' may
  for (std::size_t looked = leaving_.size(); looked > 0 && mending_.size() < kMovesAtOnce; --looked) {
    const ChunkNo chunk = leaving_.front();
    leaving_.pop_front();
    const auto from = asked_place(chunk);
    if (!from || store_->sealed(chunk)) continue;
    if (no_room.contains(from->node.value) || waits_in_vain(chunk)) {
      leaving_.push_back(chunk);
      continue;
    }
    const Places others = other_places(chunk, *from);
    auto to = find_place(wanted_beside(others, from->count));
    if (!to && may_leave_for_disk(chunk, others.count)) to = disk_place(chunk);
    if (!to) {
      leaving_.push_back(chunk);
      no_room.insert(from->node.value);
      continue;
    }
    seal_for(chunk, *to, from, others.count);
  }
  if (no_room.empty()) return;
  stuck_ = true;
  mend_at_ = Clock::now() + kLookForRoom;
}

// From now on nobody begins to read there; who has begun is waited for.
void KeeperServer::leave_place(ChunkNo chunk, const Mending& job) {
  if (job.to.node == keeper_wire::kDisk && job.others > 0) {
    if (!store_->drop_place(chunk, *job.from)) return;
  } else if (job.to.node == keeper_wire::kDisk) {
    store_->revive(chunk);
  } else if (!store_->move_place(chunk, job.row, *job.from, job.to, since_)) {
    return;  // its session was lost meanwhile
  }
  moved_ += job.to.count;
  left_.push_back(Left{*job.from, chunk, seal_round_ + 1, last_number_});
  round_is_due_ = true;
}

// Who came later sees the new place; who holds nothing there reads nothing there. Whoever has answered may still have
// writes there, failed ones, in lanes that are over.
bool KeeperServer::nobody_reads(const Left& left) const {
  return std::all_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
    const Process& process = *entry.second;
    if (entry.first > left.last_process || !process.holder.holds_any_of(kHome, left.chunk.value)) return true;
    const auto kept = process.nodes.find(left.run.node.value);
    const bool over = kept != process.nodes.end() && kept->second.state == KeptNode::Lanes::over;
    return process.sealed >= left.round && !over;
  });
}

void KeeperServer::settle_left() {
  std::erase_if(left_, [this](const Left& left) {
    if (!nobody_reads(left)) return false;
    give_back_place(left.run);
    return true;
  });
}

}  // namespace comex

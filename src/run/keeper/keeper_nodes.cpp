// Memory nodes as the pool has them, told to the processes; and the processes' lanes.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

#include "run/keeper/keeper_server.h"

namespace comex {

namespace kw = keeper_wire;

namespace {

constexpr Millis kRenewPause{1000};

}  // namespace

void KeeperServer::look_at_pool() {
  looked_at_ = Clock::now();
  const auto members = pool_.status();
  for (const MemberStatus& member : members) look_at_node(member);
  std::vector<Node> gone;
  for (const auto& entry : nodes_) {
    const Node& node = entry.second;
    const bool there = std::any_of(members.begin(), members.end(), [&](const auto& m) { return m.node == node.id; });
    if (!there) gone.push_back(node);
  }
  for (const Node& node : gone) lose(node);
}

void KeeperServer::look_at_node(const MemberStatus& member) {
  Node now;
  now.id = member.node;
  {
    const auto link = pool_.enter(member.node);
    now.standing = link && link->broken() == Errc::ok;
    if (now.standing) {
      now.link = link->number();
      now.info = link->node();
      now.session = link->session();
    }
  }
  const auto found = nodes_.find(now.id.value);
  if (!now.standing) {
    if (found != nodes_.end() && found->second.standing) link_broke(found->second);
    return;
  }
  if (found != nodes_.end() && found->second.link == now.link) return hear_asked(found->second, member.asked);
  if (auto url = parse_url(member.url)) now.url = *std::move(url);
  const bool same_session = found != nodes_.end() && found->second.session.client == now.session.client &&
                            found->second.session.boot_id == now.session.boot_id;
  if (same_session) {
    now.asked = std::move(found->second.asked);
    now.unsettled = std::move(found->second.unsettled);
    now.withheld = std::move(found->second.withheld);
    found->second = std::move(now);
    return link_changed(found->second);
  }
  // The session ended without a frame in use: the pool keeps the id for the next.
  if (found != nodes_.end()) forget_session(found->second);
  nodes_[now.id.value] = now;
}

// The session has resumed: what was sent on older connections has no effect any more.
void KeeperServer::link_changed(Node& node) {
  settle(node);
  store_->look_again();
  for (const auto& [number, process] : processes_) {
    const auto found = process->nodes.find(node.id.value);
    if (found == process->nodes.end()) continue;
    KeptNode& kept = found->second;
    kept.drop_lanes();
    if (!process->talking()) continue;
    if (!node.shm()) {
      if (process->holder.frames() > 0) open_lanes(*process, node, kept);
    } else if (std::exchange(kept.told_away, false) && !process->send(kw::Type::back, kw::NodeRef{node.id, 0})) {
      end(*process);
    }
  }
}

void KeeperServer::link_broke(Node& node) {
  node.standing = false;
  for (const auto& [number, process] : processes_) {
    const auto found = process->nodes.find(node.id.value);
    if (found == process->nodes.end()) continue;
    KeptNode& kept = found->second;
    if (kept.state == KeptNode::Lanes::ready) kept.state = KeptNode::Lanes::over;
    settle_parked(*process);
    if (!process->talking() || std::exchange(kept.told_away, true)) continue;
    if (!process->send(kw::Type::away, kw::NodeRef{node.id, 0})) end(*process);
  }
}

void KeeperServer::lose(const Node& node) {
  for (const auto& [number, process] : processes_) {
    if (!process->nodes.contains(node.id.value) || !process->talking()) continue;
    if (!process->send(kw::Type::lost, kw::NodeRef{node.id, 0})) end(*process);
  }
  lost_.insert(node.id.value);
  forget_session(node);
  nodes_.erase(node.id.value);
}

// Nobody holds anything there any more, and nobody has been told of it.
void KeeperServer::forget_session(const Node& node) {
  const ChunkStore::Loss loss = store_->lose(node.id);
  for (const ChunkNo chunk : loss.fewer_places) mend_later(chunk);
  for (const ChunkNo chunk : loss.backed_up) rescue_.insert(chunk.value);
  store_->look_again();  // what was on this node as well may be handed out now
  for (const auto& [number, process] : processes_) {
    if (process->nodes.erase(node.id.value) > 0) settle_parked(*process);
  }
}

// --- lanes ---

bool KeeperServer::is_relayed(const Url& url) const {
  return url.scheme == Url::Scheme::rdma || (config_.relay && url.scheme != Url::Scheme::unix_socket);
}

bool KeeperServer::relays() const {
  const auto& nodes = pool_.config().nodes;
  return std::any_of(nodes.begin(), nodes.end(), [this](const Url& url) { return is_relayed(url); });
}

void KeeperServer::open_lanes(Process& process, const Node& node, KeptNode& kept) {
  if (!node.standing || node.shm() || kept.state != KeptNode::Lanes::none || Clock::now() < kept.try_at) return;
  kept.state = KeptNode::Lanes::opening;
  kept.link = node.link;
  opener_->open(LaneOpener::Job{process.number(), node.id, node.link, node.url, node.session, config_.lanes,
                                is_relayed(node.url)});
}

// Those who need lanes and have none: because opening them failed, the node was away, or they broke too soon again.
void KeeperServer::retry_lanes() {
  for (const auto& [number, process] : processes_) {
    if (!process->talking()) continue;
    for (auto& [id, kept] : process->nodes) {
      if (kept.state == KeptNode::Lanes::over) renew_for(*process, kept, NodeId{id});
      if (process->holder.frames() > 0) open_lanes(*process, nodes_.at(id), kept);
    }
  }
}

void KeeperServer::take_lanes() {
  for (auto& result : opener_->results()) take_lanes(std::move(result));
}

void KeeperServer::take_lanes(LaneOpener::Result result) {
  const auto found = processes_.find(result.job.process);
  if (found == processes_.end()) return;
  Process& process = *found->second;
  const auto node = nodes_.find(result.job.node.value);
  const auto at = process.nodes.find(result.job.node.value);
  if (node == nodes_.end() || at == process.nodes.end()) return;
  KeptNode& kept = at->second;
  if (kept.state != KeptNode::Lanes::opening || kept.link != result.job.link) return;
  kept.drop_lanes();
  if (!process.talking() || node->second.link != result.job.link) return;
  if (result.lanes.empty()) {
    spdlog::warn("{}: no connections for {}: {}", node->second.url.text(), process.name(), result.error.message);
    kept.try_at = Clock::now() + config_.lanes_again;
    return settle_parked(process);
  }
  kept.state = KeptNode::Lanes::ready;
  kept.link = result.job.link;
  for (const Fd& lane : result.lanes) kept.lanes.push_back(lane.duplicate());
  kept.told_away = false;
  std::vector<Fd> fds = std::move(result.lanes);
  std::move(result.desks.begin(), result.desks.end(), std::back_inserter(fds));
  if (!process.send(kw::Type::back, kw::NodeRef{node->second.id, 0}, std::move(fds))) return end(process);
  settle_parked(process);
}

// What the process sent on its lanes may still be on its way, and it can use them no more: a new coming of the session
// makes sure of both.
bool KeeperServer::lanes_broke(Process& process, NodeId id) {
  if (lost_.contains(id.value)) return true;
  if (id == kw::kDisk && backup_) {
    backup_->fail("a process could not write to it");
    return true;
  }
  const auto kept = process.nodes.find(id.value);
  if (kept == process.nodes.end()) {
    // It speaks of a session that ended with no frame of anybody, and the next of that node has the same id: see
    // forget_session(). It holds nothing there, and hears of the new one before it does.
    if (nodes_.contains(id.value)) return true;
    return broke_rules(process, "it does not know that node"), false;
  }
  if (nodes_.at(id.value).shm()) {
    pool_.renew_link(id, 0);  // none has that number: the pool only looks by itself, at once
    return true;
  }
  if (kept->second.state != KeptNode::Lanes::ready) return true;
  kept->second.state = KeptNode::Lanes::over;
  kept->second.told_away = true;
  renew_for(process, kept->second, id);
  return true;
}

// Not more often than now and then for one process: the others lose their lanes for a moment each time.
void KeeperServer::renew_for(Process& process, const KeptNode& kept, NodeId id) {
  if (Clock::now() < process.renew_at) return;
  process.renew_at = Clock::now() + kRenewPause;
  pool_.renew_link(id, kept.link);
}

}  // namespace comex

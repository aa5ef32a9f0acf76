// Which process gets and returns which frames.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "run/keeper/keeper_server.h"

namespace comex {

namespace kw = keeper_wire;

// --- out ---

// In turns, so that one that wants gigabytes does not keep the others waiting.
void KeeperServer::serve_wants() {
  bool some = true;
  while (some) {
    some = false;
    auto at = processes_.upper_bound(turn_);
    for (std::size_t i = 0; i < processes_.size(); ++i, ++at) {
      if (at == processes_.end()) at = processes_.begin();
      if (at->second->wanted == 0 || !grant_some(*at->second)) continue;
      turn_ = at->first;
      some = true;
    }
  }
  for (const auto& [number, process] : processes_) {
    if (process->wanted == 0 || process->told_refused) continue;
    // At its deadline already: does not wait, only says how things are.
    const Errc why = pool_.wait_for_frames(1, Deadline(Millis(0)));
    if (why != Errc::no_memory && why != Errc::disconnected) continue;
    process->told_refused = true;
    if (!process->send(kw::Type::refused, kw::Refused{static_cast<std::uint16_t>(why)})) end(*process);
  }
}

// One turn of one process. True if it got something.
bool KeeperServer::grant_some(Process& process) {
  std::vector<Run> runs;
  bool some = false;
  auto want = static_cast<std::uint32_t>(std::min<std::uint64_t>(process.wanted, config_.turn));
  while (want > 0 && runs.size() < kw::kMaxRuns) {
    const auto run = pool_.take(want);
    if (!run) break;
    auto node = nodes_.find(run->node.value);
    if (node == nodes_.end()) {
      look_at_pool();  // a session that began a moment ago
      node = nodes_.find(run->node.value);
    }
    const auto ready = node != nodes_.end() ? prepare(process, node->second, *run) : Ready::no;
    if (ready == Ready::no) {
      pool_.put_back(*run);
      break;
    }
    if (!book_.grant(process.holder, *run)) {
      // Neither granted nor returned: whoever holds it must not lose it to this.
      spdlog::error("the pool handed out frame {} of node {} twice", run->first.value, run->node.value);
      break;
    }
    if (ready == Ready::parked) {
      process.nodes[run->node.value].parked.push_back(*run);
    } else {
      runs.push_back(*run);
    }
    process.wanted -= run->count;
    want -= run->count;
    some = true;
  }
  if (!runs.empty()) {
    process.told_refused = false;
    if (!process.send_runs(kw::Type::grant, runs)) end(process);
  }
  return some;
}

KeeperServer::Ready KeeperServer::prepare(Process& process, Node& node, const Run& run) {
  if (!process.nodes.contains(node.id.value) && !tell_node(process, node)) return Ready::no;
  KeptNode& kept = process.nodes[node.id.value];
  if (node.shm()) return tell_slab(process, node, kept, run);
  if (kept.state == KeptNode::Lanes::ready) return Ready::yes;
  if (!node.standing || Clock::now() < kept.try_at) return Ready::no;
  open_lanes(process, node, kept);
  return Ready::parked;
}

bool KeeperServer::tell_node(Process& process, Node& node) {
  kw::Node message;
  message.id = node.id;
  message.medium = node.shm() ? kw::Medium::shm : kw::Medium::tcp;
  message.slab_order = static_cast<std::uint8_t>(node.info.slab_order);
  message.frames = node.info.frames;
  message.name.assign(node.url.text());
  std::vector<Fd> fds;
  if (node.shm()) {
    const auto link = pool_.enter(node.id);
    if (!link || link->number() != node.link) return false;
    auto fence = link->export_fence();
    if (!fence) {
      spdlog::error("{}: {}", node.url.text(), fence.error().message);
      return false;
    }
    fds.push_back(*std::move(fence));
  }
  if (!process.send(kw::Type::node, message, std::move(fds))) {
    end(process);
    return false;
  }
  process.nodes[node.id.value].told_away = !node.shm();
  return true;
}

// REQUIRES: the run has been taken from the pool, so that its slab is held and cannot be replaced.
KeeperServer::Ready KeeperServer::tell_slab(Process& process, Node& node, KeptNode& kept, const Run& run) {
  const std::uint32_t index = run.first.value >> node.info.slab_order;
  const auto link = pool_.enter(node.id);
  if (!link || link->number() != node.link) return Ready::no;
  auto slab = link->export_slab(index);
  if (!slab) {
    spdlog::error("{}: {}", node.url.text(), slab.error().message);
    return Ready::no;
  }
  if (kept.slabs[index] == slab->life) return Ready::yes;
  std::vector<Fd> fds;
  fds.push_back(std::move(slab->memory));
  if (!process.send(kw::Type::slab, kw::Slab{node.id, 0, index}, std::move(fds))) {
    end(process);
    return Ready::no;
  }
  kept.slabs[index] = slab->life;
  return Ready::yes;
}

// --- back ---

bool KeeperServer::take_back(Process& process, std::span<const std::byte> message) {
  const std::size_t count = kw::run_count(message);
  if (count == SIZE_MAX) return broke_rules(process, "a message makes no sense"), false;
  for (std::size_t i = 0; i < count; ++i) {
    const Run run = kw::run_at(message, i);
    if (lost_.contains(run.node.value)) continue;  // it has not heard of it yet
    const auto kept = process.nodes.find(run.node.value);
    bool fits = kept != process.nodes.end() && run.count > 0;
    if (fits && kept->second.state == KeptNode::Lanes::over) {
      // A write that a broken lane still carries may land in these frames: they are nobody's until that is over.
      fits = kept->second.returned.size() < process.holder.frames_of(run.node);
      if (fits) kept->second.returned.push_back(run);
    } else if (fits) {
      fits = book_.give_back(process.holder, run, free_);
    }
    if (!fits) return broke_rules(process, "it gave frames back that it does not hold"), false;
  }
  return true;
}

// The lanes that held them up are over.
void KeeperServer::settle_returns(Process& process, KeptNode& kept) {
  const auto returned = std::exchange(kept.returned, {});
  for (const Run& run : returned) {
    if (book_.give_back(process.holder, run, free_) || !process.talking()) continue;
    return broke_rules(process, "it gave frames back that it does not hold");
  }
}

void KeeperServer::grant_parked(Process& process, KeptNode& kept) {
  const auto parked = std::exchange(kept.parked, {});
  std::span<const Run> rest(parked);
  while (!rest.empty() && process.talking()) {
    const auto batch = rest.first(std::min(rest.size(), kw::kMaxRuns));
    if (!process.send_runs(kw::Type::grant, batch)) end(process);
    rest = rest.subspan(batch.size());
  }
  process.told_refused = false;
}

// There will be no lanes soon: others can have them.
void KeeperServer::put_back_parked(Process& process, KeptNode& kept) {
  for (const Run& run : std::exchange(kept.parked, {})) {
    (void)book_.give_back(process.holder, run, [this](const Run& freed) { pool_.put_back(freed); });
    if (process.talking()) process.wanted += run.count;
  }
}

// --- fork ---

void KeeperServer::inherit(const Process& parent, Process& heir) {
  book_.inherit(parent.holder, heir.holder);
  for (const auto& [id, kept] : parent.nodes) {
    KeptNode& copy = heir.nodes[id];
    copy.slabs = kept.slabs;  // mapped in the parent, and so in the child
    const Node& node = nodes_.at(id);
    copy.told_away = kept.told_away || !node.shm();
    // What the parent has not been told of, or has returned, the child will not know of.
    for (const auto* runs : {&kept.parked, &kept.returned}) {
      for (const Run& run : *runs) (void)book_.give_back(heir.holder, run, free_);
    }
    if (!node.shm() && heir.holder.frames_of(node.id) > 0) open_lanes(heir, node, copy);
  }
}

void KeeperServer::publish() {
  KeeperStatus status;
  for (const auto& [number, process] : processes_) {
    ++(process->talking() ? status.processes : status.leaving);
    status.frames += process->holder.frames();
    status.refused += process->wanted > 0 && process->told_refused;
  }
  const std::lock_guard lock(mutex_);
  status_ = status;
}

}  // namespace comex

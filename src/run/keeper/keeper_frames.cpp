// Which process gets and returns which frames.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "run/keeper/keeper_server.h"

namespace comex {

namespace kw = keeper_wire;

namespace {

constexpr std::uint64_t kLittleDead = 2'048;  // homes: 8 MiB

}  // namespace

// --- out ---

// In turns, so that one that wants gigabytes does not keep the others waiting.
void KeeperServer::serve_wants() {
  refusal_ = Errc::ok;
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
    if (refusal_ != Errc::no_memory && refusal_ != Errc::disconnected) continue;
    process->told_refused = true;
    if (!process->send(kw::Type::refused, kw::Refused{static_cast<std::uint16_t>(refusal_)})) end(*process);
  }
}

// One turn of one process. True if it got something.
bool KeeperServer::grant_some(Process& process) {
  std::vector<Run> runs;
  bool some = false;
  auto want =
      config_.code.round_down(static_cast<std::uint32_t>(std::min<std::uint64_t>(process.wanted, config_.turn)));
  while (want > 0 && runs.size() < kw::kMaxRuns) {
    const auto run = next_run(want);
    if (!run) break;
    const auto ready = prepare(process, chunk_of(run->first));
    if (ready == Ready::no) {
      store_->give_back(*run);
      break;
    }
    if (!book_.grant(process.holder, *run)) {
      // Neither granted nor returned: whoever holds it must not lose it to this.
      spdlog::error("home {} was handed out twice", run->first.value);
      break;
    }
    (ready == Ready::parked ? process.parked : runs).push_back(*run);
    process.wanted -= run->count;
    want -= run->count;
    some = true;
    if (!tell_since(process, store_->since(chunk_of(run->first)))) {
      end(process);  // what it was granted goes with it
      return some;
    }
  }
  if (!runs.empty()) {
    process.told_refused = false;
    if (!process.send_runs(kw::Type::grant, runs)) end(process);
  }
  return some;
}

// Free homes, of chunks that there are or new ones. Nothing if there is no memory now: see refusal_.
std::optional<Run> KeeperServer::next_run(std::uint32_t want) {
  const auto standing = [this](ChunkNo chunk) {
    const Places places = store_->places(chunk);
    if (!store_->writable(chunk)) return false;
    return std::all_of(places.at.begin(), places.at.begin() + places.count, [this](const Location& place) {
      const Node& node = nodes_.at(place.node.value);
      return node.standing && is_settled(place) && !is_asked(node, place.frame);
    });
  };
  const bool enough = store_->wasteful() || store_->most_free() >= kChunkFrames / 2;
  if (!enough) (void)make_chunks(want);
  if (const auto run = store_->take(want, standing)) return run;
  if (enough && make_chunks(want)) {
    if (const auto run = store_->take(want, standing)) return run;
  }
  return next_run_on_disk(want);
}

bool KeeperServer::stands(NodeId id) const {
  if (id == kw::kDisk) return true;
  const auto node = nodes_.find(id.value);
  return node != nodes_.end() && node->second.standing;
}

// Takes frames from the pool, in as many copies as there are to be, each on another node. With fewer copies if there
// are no other nodes: better than not at all. Where pages are coded, there may be less parity.
bool KeeperServer::make_chunks(std::uint32_t want) {
  std::vector<Run> places;
  std::vector<NodeId> used;
  const auto put_back = [&] {
    for (const Run& place : places) pool_.put_back(place);
    return false;
  };
  const Code code = config_.code;
  std::uint32_t count = std::max(want, kChunkFrames) / code.data;
  while (places.size() < pool_.config().copies) {
    const auto place = pool_.take_apart(count, used);
    if (!place) {
      refusal_ = pool_.apart(used);
      if (places.size() >= code.data && refusal_ == Errc::disconnected) break;
      return put_back();
    }
    places.push_back(*place);
    used.push_back(place->node);
    count = std::min(count, place->count);
  }
  refusal_ = Errc::ok;
  const auto known = [this](NodeId node) { return nodes_.contains(node.value); };
  if (!std::all_of(used.begin(), used.end(), known)) look_at_pool();  // a session that began a moment ago
  if (!std::all_of(used.begin(), used.end(), known)) return put_back();
  for (Run& place : places) {
    pool_.put_back(place.from(count));
    place.count = count;
  }
  while (places.front().count > 0) {
    const std::uint32_t size = std::min(places.front().count, most_columns(code));
    std::vector<Run> chunk;
    for (const Run& place : places) chunk.push_back(Run{place.node, place.first, size});
    if (code.coded()) {
      // Parity is not read: each node has its share of it.
      std::rotate(chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(first_row_++ % chunk.size()), chunk.end());
    } else {
      // Processes read from the first: a near one, or the one that all chunks have first, so that pages which are
      // wanted together can come in one read.
      std::stable_partition(chunk.begin(), chunk.end(),
                            [this](const Run& place) { return nodes_.at(place.node.value).shm(); });
    }
    const auto made = store_->add(chunk);
    if (!made) return put_back();
    if (chunk.size() < pool_.config().copies) mend_later(*made);
    for (Run& place : places) place = place.from(size);
  }
  return true;
}

KeeperServer::Ready KeeperServer::prepare(Process& process, ChunkNo chunk) {
  const Places places = store_->places(chunk);
  Ready all = places.count > 0 ? Ready::yes : Ready::no;
  for (std::uint32_t i = 0; i < places.count; ++i) {
    if (places.at[i].node == kw::kDisk) continue;  // everybody knows it
    const auto node = nodes_.find(places.at[i].node.value);
    const auto ready = node != nodes_.end() ? prepare(process, node->second, places.at[i].frame) : Ready::no;
    if (ready == Ready::no) return ready;
    if (ready == Ready::parked) all = ready;
  }
  return all;
}

// REQUIRES: a chunk has the frame, so that its slab is held and cannot be replaced.
KeeperServer::Ready KeeperServer::prepare(Process& process, Node& node, FrameNo frame) {
  if (!process.nodes.contains(node.id.value) && !tell_node(process, node)) return Ready::no;
  KeptNode& kept = process.nodes[node.id.value];
  if (node.shm()) return tell_slab(process, node, kept, frame);
  if (kept.state == KeptNode::Lanes::ready) return Ready::yes;
  if (!node.standing || Clock::now() < kept.try_at) return Ready::no;
  open_lanes(process, node, kept);
  return Ready::parked;
}

bool KeeperServer::tell_node(Process& process, Node& node) {
  kw::Node message;
  message.id = node.id;
  message.medium = node.shm() ? kw::Medium::shm : is_relayed(node.url) ? kw::Medium::relayed : kw::Medium::tcp;
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

KeeperServer::Ready KeeperServer::tell_slab(Process& process, Node& node, KeptNode& kept, FrameNo frame) {
  const std::uint32_t index = frame.value >> node.info.slab_order;
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
  std::vector<Node*> over;  // what it sent there may still be on its way
  for (const auto& [id, kept] : process.nodes) {
    if (kept.state == KeptNode::Lanes::over) over.push_back(&nodes_.at(id));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Run run = kw::run_at(message, i);
    const bool fits = ChunkMap::holds(run) && store_->size(chunk_of(run.first)) > 0;
    for (Node* const node : over) {
      if (fits) unsettle(chunk_of(run.first), *node);
    }
    if (!fits || !book_.give_back(process.holder, run, free_)) {
      return broke_rules(process, "it gave frames back that it does not hold"), false;
    }
  }
  return true;
}

// A place that the chunk was moved from a moment ago is one, too.
void KeeperServer::unsettle(ChunkNo chunk, Node& node) {
  const Places places = store_->places(chunk);
  for (std::uint32_t i = 0; i < places.count; ++i) {
    if (places.at[i].node == node.id) node.unsettled.insert(places.at[i].frame.value);
  }
  for (const Left& left : left_) {
    if (left.chunk == chunk && left.run.node == node.id) node.unsettled.insert(left.run.first.value);
  }
}

// A node has not said that its pull is over. It is once the session has resumed: what was asked for before has no
// effect then.
void KeeperServer::unsettle(const Run& place, std::uint64_t link) {
  const auto node = nodes_.find(place.node.value);
  if (node == nodes_.end() || node->second.link != link) return;
  node->second.unsettled.insert(place.first.value);
  pool_.renew_link(place.node, link);
}

bool KeeperServer::is_settled(const Location& place) const {
  const auto node = nodes_.find(place.node.value);
  return node == nodes_.end() || !node->second.unsettled.contains(place.frame.value);
}

// A chunk has no more use for it.
void KeeperServer::give_back_place(const Run& place) {
  if (place.node == kw::kDisk) return backup_->give_back(place);
  if (is_settled(place.at(0))) return pool_.give_back(place);
  nodes_.at(place.node.value).withheld.push_back(place);
}

// Nothing that was sent there before can land any more.
void KeeperServer::settle(Node& node) {
  node.unsettled.clear();
  for (const Run& place : std::exchange(node.withheld, {})) pool_.give_back(place);
}

// Lanes came, or will not come soon: then others can have the frames.
void KeeperServer::settle_parked(Process& process) {
  std::vector<Run> ready;
  for (const Run& run : std::exchange(process.parked, {})) {
    const Ready now = process.talking() ? prepare(process, chunk_of(run.first)) : Ready::no;
    if (now == Ready::yes) {
      ready.push_back(run);
    } else if (now == Ready::parked) {
      process.parked.push_back(run);
    } else {
      (void)book_.give_back(process.holder, run, free_);
      if (process.talking()) process.wanted += run.count;
    }
  }
  std::span<const Run> rest(ready);
  while (!rest.empty() && process.talking()) {
    const auto batch = rest.first(std::min(rest.size(), kw::kMaxRuns));
    if (!process.send_runs(kw::Type::grant, batch)) end(process);
    rest = rest.subspan(batch.size());
    process.told_refused = false;
  }
}

// --- fork ---

void KeeperServer::inherit(const Process& parent, Process& heir) {
  book_.inherit(parent.holder, heir.holder);
  // What the parent has not been told of the child will not know of.
  for (const Run& run : parent.parked) (void)book_.give_back(heir.holder, run, free_);
  heir.heard = parent.heard;
  for (const auto& [id, kept] : parent.nodes) {
    KeptNode& copy = heir.nodes[id];
    copy.slabs = kept.slabs;  // mapped in the parent, and so in the child
    const Node& node = nodes_.at(id);
    copy.told_away = kept.told_away || !node.shm();
    if (!node.shm() && heir.holder.frames() > 0) open_lanes(heir, node, copy);
  }
}

// Where pages are coded: so many homes are of no use that pages had better be written elsewhere, or not so many any
// more. While some are held by several processes they are not asked to: one of them alone would free nothing.
void KeeperServer::mind_dead_homes() {
  if (!config_.code.coded()) return;
  std::uint64_t held = 0;
  for (const auto& [number, process] : processes_) held += process->holder.frames();
  const std::uint64_t much = std::max(kLittleDead, store_->used() / (tidy_ ? 8 : 5));
  const bool wanted = store_->dead() > much && held <= store_->used();
  if (wanted == tidy_) return;
  tidy_ = wanted;
  for (const auto& [number, process] : processes_) {
    if (!process->talking() || !process->greeted) continue;
    if (!process->send(kw::Type::tidy, kw::Tidy{tidy_})) end(*process);
  }
}

void KeeperServer::publish() {
  KeeperStatus status;
  for (const auto& [number, process] : processes_) {
    ++(process->talking() ? status.processes : status.leaving);
    status.frames += process->holder.frames();
    status.refused += process->wanted > 0 && process->told_refused;
  }
  status.used = store_->used();
  status.free = store_->free();
  status.dead = store_->dead();
  status.thin = store_->thin();
  status.mended = mended_;
  const auto left =
      std::count_if(left_.begin(), left_.end(), [](const Left& one) { return one.run.node != kw::kDisk; });
  status.to_move = (leaving_.size() + static_cast<std::size_t>(left)) * most_columns(config_.code);
  for (const auto& [chunk, job] : mending_) status.to_move += job.from ? job.to.count : 0;
  status.moved = moved_;
  status.straight = straight_;
  status.stuck = stuck_;
  if (backup_) status.backup = backup_->status();
  status.on_disk = store_->used_on_disk();
  status.moved_back = moved_back_;
  const std::lock_guard lock(mutex_);
  status_ = status;
}

}  // namespace comex

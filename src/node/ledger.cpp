#include "node/ledger.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "wire/auth.h"

namespace comex {
namespace {

// How many withheld slabs a grant that finds nothing replaces before it says no.
constexpr std::size_t kRenewForGrant = 16;

}  // namespace

Ledger::Ledger(Arena& arena, const LedgerConfig& config)
    : arena_(arena),
      config_(config),
      buddy_(arena.slabs(), arena.slab_order()),
      references_(arena.frames()),
      dirty_(arena.frames()),
      settled_(arena.slabs()),
      live_(arena.slabs()),
      opened_(arena.slabs()),
      slabs_(arena.slabs(), SlabState::open),
      goal_(arena.slabs()) {}

// --- clients ---

ClientId Ledger::next_id() {
  const std::lock_guard lock(mutex_);
  return ClientId{++last_id_};
}

Expected<std::shared_ptr<Client>> Ledger::admit(ClientId id, const wire::SessionKey& key, const Arrival& arrival) {
  const std::lock_guard lock(mutex_);
  return enter(id, key, arrival, nullptr);
}

Expected<std::shared_ptr<Client>> Ledger::enter(ClientId id, const wire::SessionKey& key, const Arrival& arrival,
                                                std::shared_ptr<Family> family) {
  if (clients_.size() >= config_.max_clients) {
    return Error{Errc::busy, fmt::format("the node has {} clients, its limit; try another node", clients_.size())};
  }
  auto client = std::make_shared<Client>(id, key, arrival.medium, arrival.uid, arena_.slab_order());
  client->name = arrival.name;
  client->peer = arrival.peer;
  client->pid = arrival.pid;
  if (arrival.medium == Medium::shm) {
    auto fence = FencePage::make();
    if (!fence) return std::move(fence).error();
    client->fence = *std::move(fence);
  }
  if (!family) {
    family = std::make_shared<Family>();
    if (arrival.medium != Medium::tcp) family->zone = buddy_.make_zone();
    family->access = arrival.access;
  }
  ++family->members;
  client->family = std::move(family);
  clients_.emplace(id.value, client);
  return client;
}

std::shared_ptr<Client> Ledger::find(ClientId id) {
  const std::lock_guard lock(mutex_);
  const auto found = clients_.find(id.value);
  return found == clients_.end() ? nullptr : found->second;
}

void Ledger::end(Client& client) {
  const std::lock_guard lock(mutex_);
  if (const auto found = clients_.find(client.id.value); found != clients_.end()) leave(found, Fate::free);
}

void Ledger::end_all() {
  const std::lock_guard lock(mutex_);
  for (auto at = clients_.begin(); at != clients_.end();) at = leave(at, Fate::free);
}

std::size_t Ledger::end_silent(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  // If this process itself was away (stopped, or its machine paused), so were everybody's beats, unread in the sockets.
  const bool was_away = now - last_look_ > config_.lease / 2;
  last_look_ = now;
  if (was_away) {
    for (const auto& [id, client] : clients_) client->touch(now);
    return 0;
  }
  std::size_t ended = 0;
  for (auto at = clients_.begin(); at != clients_.end();) {
    if (now - at->second->last_heard() <= config_.lease) {
      ++at;
    } else {
      at = leave(at, at->second->medium == Medium::shm ? Fate::quarantine : Fate::free);
      ++ended;
    }
  }
  return ended;
}

Ledger::Clients::iterator Ledger::leave(Clients::iterator at, Fate fate) {
  const std::shared_ptr<Client> client = at->second;
  client->fenced.store(true);
  client->fence.raise();
  std::vector<Extent> held;
  {
    const std::unique_lock access(client->access);
    client->holdings.for_each([&](Extent extent) { held.push_back(extent); });
    client->holdings.clear();
    client->cut_direct();
  }
  for (const auto& extent : held) release(extent, fate);
  if (--client->family->members == 0 && client->family->zone != kCommonZone) buddy_.drop_zone(client->family->zone);
  return clients_.erase(at);
}

// --- frames ---

Expected<std::vector<Extent>> Ledger::grant(Client& client, std::uint32_t frames, unsigned min_order) {
  const auto start = Clock::now();
  const std::lock_guard lock(mutex_);
  if (client.fenced.load()) return Error{Errc::fenced, "the lease ended; begin a new session"};
  const ZoneId zone = client.family->zone;
  frames = std::min(frames, config_.max_grant);
  auto extents = buddy_.allocate_some(zone, frames, min_order, wire::kMaxExtents);
  if (extents.empty() && renew_withheld(kRenewForGrant) > 0) {
    extents = buddy_.allocate_some(zone, frames, min_order, wire::kMaxExtents);
  }
  // Who asks for scraps is in need: more so than those who may one day ask for long extents.
  if (extents.empty() && compacting_ > 0 && min_order == 0) {
    stop_compacting(adjusted_at_);
    extents = buddy_.allocate_some(zone, frames, min_order, wire::kMaxExtents);
  }
  if (extents.empty()) {
    return Error{Errc::no_memory, fmt::format("no extent of {} frames is free ({} frames are)",
                                              std::uint64_t{1} << min_order, buddy_.free_frames())};
  }
  for (const auto& extent : extents) prepare(extent, zone);
  {
    const std::unique_lock access(client.access);
    for (const auto& extent : extents) client.holdings.add(extent);
  }
  const auto took = static_cast<double>((Clock::now() - start).count());
  service_ns_ = service_ns_ == 0 ? took : service_ns_ * 0.9 + took * 0.1;
  return extents;
}

// Invariant 2: what is handed out shows nobody else's bytes.
void Ledger::prepare(const Extent& extent, ZoneId zone) {
  const std::uint32_t slab = buddy_.slab_of(extent.first);
  if (zone == kCommonZone) {
    scrub(extent);
  } else if (!settled_[slab]) {
    // The slab is new to this family: clean all of it once, and what circulates within the family later is its own.
    scrub(Extent{FrameNo{slab << buddy_.slab_order()}, std::uint32_t{1} << buddy_.slab_order()});
    settled_[slab] = true;
  }
  live_[slab] += extent.count;
  lent_ += extent.count;
  for (std::uint32_t i = 0; i < extent.count; ++i) {
    references_[extent.first.value + i] = 1;
    dirty_[extent.first.value + i] = true;
  }
}

void Ledger::scrub(const Extent& extent) {
  std::uint32_t run = 0;
  for (std::uint32_t i = 0; i <= extent.count; ++i) {
    const std::uint32_t frame = extent.first.value + i;
    if (i < extent.count && dirty_[frame]) {
      dirty_[frame] = false;
      ++run;
    } else if (run > 0) {
      arena_.zero(Extent{FrameNo{frame - run}, run});
      run = 0;
    }
  }
}

Expected<void> Ledger::give_back(Client& client, const std::vector<Extent>& extents) {
  const std::lock_guard lock(mutex_);
  if (client.fenced.load()) return Error{Errc::fenced, "the lease ended; begin a new session"};
  {
    const std::unique_lock access(client.access);
    for (std::size_t i = 0; i < extents.size(); ++i) {
      if (client.holdings.remove(extents[i])) continue;
      for (std::size_t j = 0; j < i; ++j) client.holdings.add(extents[j]);
      return Error{Errc::denied, fmt::format("frames {}+{} are not held by this client; nothing was given back",
                                             extents[i].first.value, extents[i].count)};
    }
  }
  for (const auto& extent : extents) release(extent, Fate::free);
  return {};
}

// Drops one reference to each frame and disposes of those that nobody holds any more.
void Ledger::release(const Extent& extent, Fate fate) {
  const std::uint32_t slab_frames = std::uint32_t{1} << buddy_.slab_order();
  std::uint32_t run = 0;
  for (std::uint32_t i = 0; i <= extent.count; ++i) {
    const std::uint32_t frame = extent.first.value + i;
    const bool last = i < extent.count && --references_[frame] == 0;
    const bool slab_begins = frame % slab_frames == 0;
    if (run > 0 && (!last || slab_begins)) {
      dispose(Extent{FrameNo{frame - run}, run}, fate);
      run = 0;
    }
    if (last) ++run;
  }
}

void Ledger::dispose(const Extent& run, Fate fate) {
  const std::uint32_t slab = buddy_.slab_of(run.first);
  live_[slab] -= run.count;
  lent_ -= run.count;
  if (is_asked(slab)) return settle_closed(slab);
  if (fate == Fate::quarantine) {
    quarantine_[slab].push_back(run);
  } else {
    free_run(run);
  }
  if (live_[slab] > 0) return;
  if (const auto found = quarantine_.find(slab); found != quarantine_.end()) {
    const auto runs = std::move(found->second);
    quarantine_.erase(found);
    for (const auto& quarantined : runs) free_run(quarantined);
  }
}

void Ledger::free_run(const Extent& run) {
  const auto emptied = buddy_.free(run);
  if (!emptied) return;
  settled_[*emptied] = false;
  if (const auto access = std::exchange(opened_[*emptied], nullptr)) access->close(*emptied);
  if (present() > goal_ && drop(*emptied)) return;
  if (!arena_.exported(*emptied)) return;
  buddy_.withhold(*emptied);
  withheld_.push_back(*emptied);
}

bool Ledger::renew_some(std::size_t most) {
  const std::lock_guard lock(mutex_);
  return renew_withheld(most) > 0 && !withheld_.empty();
}

std::size_t Ledger::renew_withheld(std::size_t most) {
  std::size_t renewed = 0;
  while (renewed < most && !withheld_.empty()) {
    const std::uint32_t slab = withheld_.front();
    // On failure the host is short of memory just now; the slab stays withheld and is tried again later.
    if (!arena_.renew(slab)) break;
    withheld_.pop_front();
    clear_dirty(slab);
    buddy_.restore(slab);
    ++renewed;
  }
  return renewed;
}

Expected<wire::ShareReply> Ledger::share(Client& client) {
  const std::lock_guard lock(mutex_);
  if (client.fenced.load()) return Error{Errc::fenced, "the lease ended; begin a new session"};
  bool room = true;
  client.holdings.for_each([&](Extent extent) {
    for (std::uint32_t i = 0; i < extent.count; ++i) room &= references_[extent.first.value + i] != UINT16_MAX;
  });
  if (!room) return Error{Errc::busy, "a frame has too many holders"};

  wire::ShareReply reply{ClientId{++last_id_}, wire::make_nonce()};
  const Arrival arrival{client.medium, client.uid, client.pid, client.name, client.peer, nullptr};
  auto heir = enter(reply.heir, wire::heir_key(client.key, reply), arrival, client.family);
  if (!heir) return std::move(heir).error();
  // Only this thread's mutex_ changes holdings, so reading the parent's needs no access lock; nobody knows the heir.
  client.holdings.for_each([&](Extent extent) {
    (*heir)->holdings.add(extent);
    for (std::uint32_t i = 0; i < extent.count; ++i) ++references_[extent.first.value + i];
  });
  return reply;
}

Expected<std::vector<Fd>> Ledger::slab_descriptors(Client& client, const std::vector<std::uint32_t>& slabs) {
  const std::lock_guard lock(mutex_);
  if (client.fenced.load()) return Error{Errc::fenced, "the lease ended; begin a new session"};
  if (client.medium != Medium::shm) return Error{Errc::denied, "only clients on the Unix socket map memory"};
  const bool all_held = std::all_of(slabs.begin(), slabs.end(),
                                    [&](std::uint32_t slab) { return client.holdings.holds_any_of_slab(slab); });
  if (!all_held) return Error{Errc::denied, "this client holds no frame of that slab"};
  std::vector<Fd> descriptors;
  for (const auto slab : slabs) {
    const auto descriptor = arena_.slab_fd(slab);
    if (!descriptor) return Error{Errc::busy, descriptor.error().message};
    descriptors.emplace_back(fcntl(*descriptor, F_DUPFD_CLOEXEC, 0));
    if (!descriptors.back()) return Error{Errc::busy, "the node has too many open files; raise its LimitNOFILE"};
  }
  return descriptors;
}

Expected<wire::MapReply> Ledger::slab_keys(Client& client, const std::vector<std::uint32_t>& slabs) {
  wire::MapReply reply;
  for (const auto slab : slabs) {
    auto key = slab_key(client, slab);
    if (!key) return std::move(key).error();
    reply.keys.push_back(*key);
  }
  return reply;
}

// Registering takes a while, and must be done before the client can have lost the slab: so under the mutex, but of one
// slab at a time.
Expected<wire::SlabKey> Ledger::slab_key(Client& client, std::uint32_t slab) {
  const std::lock_guard lock(mutex_);
  if (client.fenced.load()) return Error{Errc::fenced, "the lease ended; begin a new session"};
  if (!client.family->access) return Error{Errc::denied, "only clients that came in by RDMA get keys"};
  if (!client.holdings.holds_any_of_slab(slab)) return Error{Errc::denied, "this client holds no frame of that slab"};
  std::byte* const memory = arena_.frame_address(FrameNo{slab << buddy_.slab_order()});
  auto key = client.family->access->open(slab, memory, kPageSize << buddy_.slab_order());
  if (!key) return Error{Errc::busy, key.error().message};
  opened_[slab] = client.family->access;
  return key;
}

// --- what there is ---

wire::NodeLoad Ledger::load_now() const {
  return wire::NodeLoad{.free_frames = buddy_.free_frames(),
                        .largest_free = buddy_.largest_free(),
                        .clients = static_cast<std::uint32_t>(clients_.size()),
                        .service_ns = static_cast<std::uint32_t>(service_ns_)};
}

wire::NodeLoad Ledger::load() const {
  const std::lock_guard lock(mutex_);
  return load_now();
}

void Ledger::describe(wire::StatusReply& status) const {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  status.frames = arena_.frames();
  status.goal = goal_ << buddy_.slab_order();
  status.present = present() << buddy_.slab_order();
  status.lent = static_cast<std::uint32_t>(lent_);
  status.load = load_now();
  status.client_count = static_cast<std::uint32_t>(clients_.size());
  status.metadata_bytes = buddy_.metadata_bytes() + references_.size() * sizeof references_[0] + dirty_.size() / 8 +
                          live_.size() * sizeof live_[0];
  for (const auto& [id, client] : clients_) {
    status.metadata_bytes += client->holdings.metadata_bytes() + sizeof(Client);
    if (status.clients.size() >= wire::kMaxStatusClients) continue;
    const auto silent = std::chrono::duration_cast<Millis>(now - client->last_heard()).count();
    status.clients.push_back({client->id, client->name, client->peer, client->pid, client->holdings.frames(),
                              static_cast<std::uint32_t>(std::max<std::int64_t>(silent, 0))});
  }
}

}  // namespace comex

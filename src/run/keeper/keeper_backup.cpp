// The disk of --backup: where pages go when there is no other place, and where those that have one node are copied to.
// See "A disk as the last resort" in docs/design-notes.md.
#include <algorithm>

#include "run/keeper/keeper_server.h"

namespace comex {

namespace kw = keeper_wire;

namespace {

constexpr Millis kLookEvery{50};         // for pages that were written
constexpr Millis kCalm{1'000};           // after homes on the disk were handed out: then the nodes may have room
constexpr std::size_t kMoveAtOnce = 64;  // chunks

}  // namespace

// Everybody knows of the disk from the start: its places can be used by whoever finds them in the map.
bool KeeperServer::tell_disk(Process& process) {
  if (!backup_) return true;
  kw::Node message;
  message.id = kw::kDisk;
  message.medium = kw::Medium::disk;
  message.frames = backup_->frames();
  message.name.assign(config_.backup.folder);
  std::vector<Fd> fds;
  fds.push_back(backup_->file().file());
  return process.send(kw::Type::node, message, std::move(fds));
}

// For want of anything else: every node says no, or none is there. See refusal_.
std::optional<Run> KeeperServer::next_run_on_disk(std::uint32_t want) {
  if (!backup_ || backup_->failed()) return std::nullopt;  // free homes there would come back at once
  if (refusal_ != Errc::no_memory && refusal_ != Errc::disconnected) return std::nullopt;
  disk_used_at_ = Clock::now();
  if (const auto run = store_->take_on_disk(want)) return run;
  const auto part = backup_->take();
  if (!part) {
    if (backup_->coming()) refusal_ = Errc::ok;
    return std::nullopt;
  }
  if (store_->add({&*part, 1})) return store_->take_on_disk(want);
  backup_->give_back(*part);
  return std::nullopt;
}

// Looks for pages that were written, through all chunks, and has them copied, a few at a time.
void KeeperServer::back_up() {
  backup_->look([this](ChunkNo chunk, Location first) { return store_->has_place(chunk, first); });
  if (next_backup_ == 0) {
    if (Clock::now() < back_up_at_) return;
    back_up_at_ = Clock::now() + kLookEvery;
    backup_->count_behind(store_->end());
    rescue();
    move_back();
  }
  while (next_backup_ < store_->end() && !backup_->is_busy()) back_up(ChunkNo{next_backup_++});
  if (next_backup_ == store_->end()) next_backup_ = 0;
}

void KeeperServer::back_up(ChunkNo chunk) {
  if (needs_no_backup(chunk)) return drop_backup(chunk);
  const Slots pages = backup_->written(chunk) & store_->used_homes(chunk);
  if (pages == 0 || store_->lost(chunk) || backup_->is_copying(chunk)) return;
  if (store_->is_on_disk(chunk)) return backup_->note_on_disk(chunk, pages);
  if (!wants_backup(chunk)) return;
  const Places places = store_->places(chunk);
  const auto* const end = places.at.begin() + places.count;
  const auto* const from =
      std::find_if(places.at.begin(), end, [this](const Location& place) { return stands(place.node); });
  if (from == end) return;
  if (const auto part = disk_place(chunk)) {
    backup_->copy({chunk, Run{from->node, from->frame, store_->size(chunk)}, *part, pages});
  }
}

// Pages that are to have one node have a copy on the disk; where there should be more, those that the disk stands in
// for a node of, or is about to.
bool KeeperServer::wants_backup(ChunkNo chunk) const {
  const std::uint32_t copies = pool_.config().copies;
  if (copies == 1) return true;
  const auto job = mending_.find(chunk.value);
  if (job != mending_.end() && job->second.to.node == kw::kDisk) return true;
  return store_->places(chunk).count < copies && store_->backup(chunk);
}

// Whether a place of the chunk can be exchanged for the disk, so that its pages are in as many places as before, or as
// they should be. `others`: places that it has beside that one.
bool KeeperServer::may_leave_for_disk(ChunkNo chunk, std::uint32_t others) const {
  return others + 1 >= pool_.config().copies || !store_->backup(chunk);
}

// Where a chunk can go that has to leave a node, and has no other: its backup, which it gets if it has none. Not while
// somebody may read the one that it had before.
std::optional<Run> KeeperServer::disk_place(ChunkNo chunk) {
  if (!backup_ || backup_->failed()) return std::nullopt;
  const bool had_one = std::any_of(left_.begin(), left_.end(),
                                   [&](const Left& left) { return left.chunk == chunk && left.run.node == kw::kDisk; });
  if (had_one) return std::nullopt;
  auto part = store_->backup(chunk);
  if (!part) {
    part = backup_->take();
    if (part) store_->add_backup(chunk, *part);
  }
  if (part) part->count = store_->size(chunk);
  return part;
}

// It stood in for a node, and all nodes are there again.
bool KeeperServer::needs_no_backup(ChunkNo chunk) const {
  const std::uint32_t copies = pool_.config().copies;
  return copies > 1 && store_->size(chunk) > 0 && !store_->sealed(chunk) && store_->backup(chunk) &&
         store_->places(chunk).count >= copies && !asked_place(chunk);
}

void KeeperServer::drop_backup(ChunkNo chunk) {
  backup_->disown(chunk);
  left_.push_back(Left{store_->drop_backup(chunk), chunk, seal_round_ + 1, last_number_});
  round_is_due_ = true;
}

// Nobody writes to the chunk: what has landed is marked, and there is no more of it when all is copied.
void KeeperServer::await_backup(ChunkNo chunk, Mending& job) {
  const bool late = Clock::now() >= job.until;  // a slow disk: the program must not wait for it
  if (late || backup_->failed() || store_->lost(chunk)) return stop_mending(chunk, !store_->lost(chunk));
  const Slots to_copy = backup_->written(chunk) & store_->used_homes(chunk);
  job.copied = to_copy == 0 && !backup_->is_copying(chunk);
  if (job.copied) disk_used_at_ = Clock::now();  // there is no room on nodes
}

// Chunks that are on the disk alone, or for a node of which it stands in, get one, unless the nodes have no room for
// what is new.
void KeeperServer::move_back() {
  if (!thin_.empty() || !no_room_.empty() || Clock::now() < disk_used_at_ + kCalm) return;
  if (store_->used_on_disk() == 0 && store_->thin() == 0) return;
  for (std::uint32_t number = 0; number < store_->end() && thin_.size() < kMoveAtOnce; ++number) {
    const ChunkNo chunk{number};
    if (needs_place(chunk) && (store_->is_on_disk(chunk) || store_->backup(chunk))) mend_later(chunk);
  }
}

// Chunks that lost their nodes, and of which all that is in use is on the disk: from now on they are there.
void KeeperServer::rescue() {
  for (auto at = rescue_.begin(); at != rescue_.end();) {
    const ChunkNo chunk{*at};
    const bool waits = store_->size(chunk) > 0 && store_->lost(chunk);
    const bool whole = waits && (store_->used_homes(chunk) & ~backup_->on_disk(chunk)) == 0 && !store_->sealed(chunk) &&
                       !backup_->is_copying(chunk);
    if (whole) store_->revive(chunk);
    at = whole || !waits ? rescue_.erase(at) : std::next(at);
  }
}

}  // namespace comex

// Chunks with fewer copies than they should have get new ones: sealed, copied, told of. Those that nodes want to have
// back get another place in the same way (keeper_move.cpp). See "Copies" in docs/design-notes.md.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "run/keeper/keeper_server.h"

namespace comex {

namespace kw = keeper_wire;

namespace {

constexpr std::size_t kAtOnce = 16;     // chunks that are sealed or being copied
constexpr Millis kSealPatience{2'000};  // for processes to answer; one that is stopped may take for ever

}  // namespace

void KeeperServer::mend() {
  for (const ChunkCopier::Result& result : copier_->results()) copied(result);
  settle_left();
  if (Clock::now() >= mend_at_) seal_some();
  for (auto at = mending_.begin(); at != mending_.end();) {
    Mending& job = at->second;
    const ChunkNo chunk{at->first};
    ++at;  // it may be gone in a moment
    if (job.copied) {
      put_to_use(chunk);
    } else if (job.copying) {
      continue;
    } else if (nobody_writes(chunk, job)) {
      begin_copy(chunk, job);
    } else if (Clock::now() >= job.until) {
      stop_mending(chunk, true);
    }
  }
  send_round();
}

void KeeperServer::begin_copy(ChunkNo chunk, Mending& job) {
  if (job.to.node == kw::kDisk) return await_backup(chunk, job);
  ChunkCopier::Job copy{chunk, find_sources(chunk, job), job.to, job.row};
  job.copying = !copy.from.empty();
  if (!job.copying) return stop_mending(chunk, !store_->lost(chunk));
  copier_->copy(std::move(copy));
}

// The place that is to be given up, if its node answers: another may have gone wrong without anybody knowing, and must
// not take the place of what is right. Otherwise the first whose node does. Where pages are coded: the row itself if it
// is only to move, or as many others as it takes.
std::vector<ChunkCopier::Source> KeeperServer::find_sources(ChunkNo chunk, const Mending& job) const {
  std::vector<ChunkCopier::Source> sources;
  if (!config_.code.coded()) {
    const Places places = store_->places(chunk);
    const auto* const end = places.at.begin() + places.count;
    const auto answers = [this](const Location& place) { return stands(place.node); };
    const auto leaves = [&](const Location& place) { return job.from && place == job.from->at(0) && answers(place); };
    const auto* place = std::find_if(places.at.begin(), end, leaves);
    if (place == end) place = std::find_if(places.at.begin(), end, answers);
    if (place != end) sources.push_back({0, Run{place->node, place->frame, job.to.count}});
    return sources;
  }
  for (std::uint32_t row = 0; row < config_.code.nodes(); ++row) {
    const auto at = store_->row(chunk, row);
    if (!at || !stands(at->node)) continue;
    const ChunkCopier::Source source{row, Run{at->node, at->frame, job.to.count}};
    if (row == job.row) return {source};
    if (sources.size() < config_.code.data) sources.push_back(source);
  }
  if (sources.size() < config_.code.data) sources.clear();
  return sources;
}

// Copies that are lost first: they may be the last but one.
void KeeperServer::seal_some() {
  seal_thin();
  if (thin_.empty() || mending_.empty()) seal_leaving();
  if (!round_is_due_ && mending_.empty()) mend_at_ = Clock::now() + kMendAgain;
}

void KeeperServer::seal_for(ChunkNo chunk, const Run& to, std::optional<Run> from, std::uint32_t others) {
  const std::uint32_t row = store_->find_row(chunk, from ? std::optional(from->at(0)) : std::nullopt);
  store_->seal(chunk);
  mending_[chunk.value] =
      Mending{to, row, from, others, seal_round_ + 1, last_number_, Clock::now() + kSealPatience, false, false};
  round_is_due_ = true;
}

// Asks the processes to say when nothing that they began before is under way any more.
void KeeperServer::send_round() {
  if (std::exchange(round_is_due_, false)) ++seal_round_;
  for (const auto& [number, process] : processes_) {
    if (!process->talking() || !process->greeted || process->seal_sent == seal_round_ || is_silent(*process)) continue;
    if (process->sealed == process->seal_sent) process->seal_at = Clock::now();
    process->seal_sent = seal_round_;
    if (!process->send(kw::Type::seal, kw::Seal{seal_round_})) end(*process);
  }
}

void KeeperServer::seal_thin() {
  if (Clock::now() >= look_for_room_at_) look_for_room();
  while (mending_.size() < kAtOnce) {
    const auto next = thin_.take([this](std::uint32_t chunk) { return !waits_in_vain(ChunkNo{chunk}); });
    if (!next) return;
    const ChunkNo chunk{*next};
    if (!needs_place(chunk)) continue;
    const Wanted wanted = wanted_beside(store_->places(chunk), store_->length(chunk));
    if (const auto others = no_room_.find(wanted); others != no_room_.end()) {
      others->second.push_back(chunk);
    } else if (const auto to = find_place(wanted)) {
      seal_for(chunk, *to, std::nullopt);
    } else if (pool_.apart(wanted.beside) == Errc::ok) {
      return mend_later(chunk);  // frames are on their way
    } else {
      no_room_[wanted].push_back(chunk);
    }
  }
}

// For what had none a while ago.
void KeeperServer::look_for_room() {
  look_for_room_at_ = Clock::now() + kMendAgain;
  for (const auto& [wanted, chunks] : std::exchange(no_room_, {})) {
    for (const ChunkNo chunk : chunks) mend_later(chunk);
  }
}

void KeeperServer::mend_later(ChunkNo chunk) {
  thin_.push(chunk.value, store_->places(chunk).count);
}

bool KeeperServer::needs_place(ChunkNo chunk) const {
  if (store_->size(chunk) == 0 || store_->sealed(chunk) || store_->lost(chunk)) return false;
  if (!store_->has_room_for_place(chunk)) return false;
  return store_->places(chunk).count < pool_.config().copies || store_->is_on_disk(chunk);
}

KeeperServer::Wanted KeeperServer::wanted_beside(const Places& places, std::uint32_t count) {
  Wanted wanted{{}, count};
  for (std::uint32_t i = 0; i < places.count; ++i) {
    if (places.at[i].node != kw::kDisk) wanted.beside.push_back(places.at[i].node);
  }
  return wanted;
}

std::optional<Run> KeeperServer::find_place(const Wanted& wanted) {
  const auto run = pool_.take_apart(wanted.count, wanted.beside, wanted.count);
  if (!run) return std::nullopt;
  if (!nodes_.contains(run->node.value)) look_at_pool();  // a session that began a moment ago
  const auto node = nodes_.find(run->node.value);
  if (node != nodes_.end() && !is_asked(node->second, run->first)) return run;
  pool_.put_back(*run);
  return std::nullopt;
}

// It has not answered for a while: it is stopped, perhaps for ever.
bool KeeperServer::is_silent(const Process& process) {
  return process.sealed < process.seal_sent && Clock::now() >= process.seal_at + kSealPatience;
}

bool KeeperServer::waits_in_vain(ChunkNo chunk) const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
    const Process& process = *entry.second;
    return (!process.talking() || is_silent(process)) && process.holder.holds_any_of(kHome, chunk.value);
  });
}

// Who came later than the seal sees it; who holds nothing there has nothing to write.
bool KeeperServer::nobody_writes(ChunkNo chunk, const Mending& job) const {
  return std::all_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
    const Process& process = *entry.second;
    return entry.first > job.last_process || process.sealed >= job.round ||
           !process.holder.holds_any_of(kHome, chunk.value);
  });
}

void KeeperServer::stop_mending(ChunkNo chunk, bool again) {
  const auto found = mending_.find(chunk.value);
  if (found->second.to.node != kw::kDisk) give_back_place(found->second.to);  // the disk's is a backup as before
  const bool moving = found->second.from.has_value();
  mending_.erase(found);
  store_->unseal(chunk);
  if (!again) return;
  // find_leaving() finds those that were to move.
  if (!moving || store_->places(chunk).count < pool_.config().copies) mend_later(chunk);
  mend_at_ = Clock::now() + kMendAgain;
}

void KeeperServer::copied(const ChunkCopier::Result& result) {
  if (result.unsettled != 0) unsettle(result.job.to, result.unsettled);
  if (result.straight) straight_ += result.job.to.count;
  if (result.error != Errc::ok) return stop_mending(result.job.chunk, !store_->lost(result.job.chunk));
  Mending& job = mending_.at(result.job.chunk.value);
  job.copied = true;
  job.until = Clock::now() + kSealPatience;
}

// The copy is used, when all who hold frames of the chunk know the way there.
void KeeperServer::put_to_use(ChunkNo chunk) {
  const Mending job = mending_.at(chunk.value);
  // What is left of a coded chunk that is lost can still be read, and moves with the rest of its node.
  const bool moves_all_the_same = config_.code.coded() && job.from;
  if (store_->lost(chunk) && !moves_all_the_same) return stop_mending(chunk, false);
  if (job.from && other_places(chunk, *job.from).count < job.others) return stop_mending(chunk, true);
  // If it is to be the only place, they must be able to use it at once.
  if (!tell_place(chunk, job.to, job.from.has_value())) {
    if (!job.from || Clock::now() >= job.until) stop_mending(chunk, true);
    return;
  }
  mending_.erase(chunk.value);
  ++since_;
  for (const auto& [number, process] : processes_) {
    if (!process->holder.holds_any_of(kHome, chunk.value) || !process->talking()) continue;
    if (!tell_since(*process, since_)) end(*process);
  }
  if (job.from) {
    leave_place(chunk, job);
  } else {
    const bool was_on_disk = store_->is_on_disk(chunk);
    (was_on_disk ? moved_back_ : mended_) += job.to.count;
    // Nobody writes: all that ever landed is marked.
    if (was_on_disk) backup_->note_on_disk(chunk, backup_->written(chunk) & store_->used_homes(chunk));
    store_->add_place(chunk, job.row, job.to, since_);
  }
  store_->unseal(chunk);
  const bool at_once = !store_->is_on_disk(chunk) && job.to.node != kw::kDisk;  // from the disk: move_back()
  if (at_once && needs_place(chunk)) mend_later(chunk);
}

// All who hold frames of the chunk know the way there, and can go it at once if they have to. False: they do not, and
// must not be told of the place.
bool KeeperServer::tell_place(ChunkNo chunk, const Run& place, bool at_once) {
  if (place.node == kw::kDisk) return true;  // everybody knows it
  const auto node = nodes_.find(place.node.value);
  if (node == nodes_.end()) return false;
  for (const auto& [number, process] : processes_) {
    if (!process->talking() || !process->holder.holds_any_of(kHome, chunk.value)) continue;
    const Ready ready = prepare(*process, node->second, place.first);
    // Over lanes it can be used when they are there, and not before.
    const bool must = at_once || node->second.shm();
    const bool knows = must ? ready == Ready::yes : process->nodes.contains(place.node.value);
    if (!knows && process->talking()) return false;
  }
  return true;
}

bool KeeperServer::tell_since(Process& process, std::uint32_t since) {
  if (process.heard >= since) return true;
  process.heard = since;
  return process.send(kw::Type::place, kw::Since{since});
}

}  // namespace comex

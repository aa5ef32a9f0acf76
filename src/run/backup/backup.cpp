#include "run/backup/backup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/units.h"
#include "run/keeper_wire.h"

namespace comex {
namespace {

constexpr std::uint32_t kFirst = 16;      // parts that the file has to begin with: 4 MiB
constexpr std::uint32_t kStep = 256;      // ... and by which it grows: 64 MiB
constexpr std::uint32_t kAskBelow = 128;  // as soon as fewer than these are left

constexpr std::uint64_t bytes_of(std::uint32_t parts) {
  return std::uint64_t{parts} * kBatchBytes;
}

}  // namespace

Expected<std::unique_ptr<Backup>> Backup::open(const BackupConfig& config, Frames& pool, int wake) {
  const auto limit = static_cast<std::uint32_t>(std::min<std::uint64_t>(config.bytes / kBatchBytes, ChunkMap::kChunks));
  if (limit == 0) {
    return Error{Errc::invalid,
                 fmt::format("--backup-size {}: too small; use a size such as 4G", format_size(config.bytes))};
  }
  auto file = BackupFile::make(config.folder);
  if (!file) return std::move(file).error();
  const std::uint32_t first = std::min(limit, kFirst);
  if (const auto reserved = file->reserve(bytes_of(first)); !reserved) {
    return Error{Errc::invalid, fmt::format("--backup {}: {}", config.folder, reserved.error().message)};
  }
  std::unique_ptr<Backup> backup(new Backup(*std::move(file), limit));
  backup->reserved_ = first;
  if (auto made = backup->make_map(); !made) return std::move(made).error();
  backup->worker_ = std::make_unique<BackupWorker>(pool, backup->file_, bytes_of(first), wake);
  return backup;
}

Expected<void> Backup::make_map() {
  map_file_ = Fd(memfd_create("comex-backup", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!map_file_ || ftruncate(map_file_.get(), kBackupMapBytes) != 0) return system_error("cannot make the map");
  void* const map =
      mmap(nullptr, kBackupMapBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, map_file_.get(), 0);
  if (map == MAP_FAILED) return system_error("cannot map the map");
  map_ = static_cast<BackupEntry*>(map);
  if (fcntl(map_file_.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return system_error("cannot seal the map");
  }
  return {};
}

Backup::~Backup() {
  worker_.reset();
  if (map_ != nullptr) munmap(map_, kBackupMapBytes);
}

// --- parts ---

std::optional<Run> Backup::take() {
  grow_ahead();
  if (failed_) return std::nullopt;
  std::uint32_t part = touched_;
  if (!free_.empty()) {
    part = free_.back();
    free_.pop_back();
  } else if (touched_ < reserved_) {
    ++touched_;
  } else {
    return std::nullopt;
  }
  return Run{keeper_wire::kDisk, FrameNo{part << kChunkOrder}, kChunkFrames};
}

void Backup::give_back(const Run& part) {
  const std::uint32_t number = part.first.value >> kChunkOrder;
  for (auto& [chunk, copying] : copies_) {
    if (copying.part != number) continue;
    copying.released = true;
    return;
  }
  free_.push_back(number);
}

void Backup::grow_ahead() {
  if (growing_ || failed_ || reserved_ == limit_ || free_.size() + reserved_ - touched_ >= kAskBelow) return;
  growing_ = true;
  worker_->grow(bytes_of(std::min(limit_, reserved_ + kStep)));
}

void Backup::look(const IsPlace& is_place) {
  for (const BackupWorker::Result& result : worker_->results()) copied(result, is_place);
  const auto growth = worker_->grown();
  if (!growth) return;
  growing_ = false;
  reserved_ = static_cast<std::uint32_t>(growth->bytes / kBatchBytes);
  if (growth->error.empty()) return;
  limit_ = reserved_;  // it is what there is
  if (trouble_.empty()) trouble_ = growth->error;
}

void Backup::fail(std::string why) {
  if (std::exchange(failed_, true)) return;
  trouble_ = std::move(why);
}

// --- pages ---

void Backup::note_on_disk(ChunkNo chunk, Slots pages) {
  at(chunk).on_disk.fetch_or(pages, std::memory_order_release);
  at(chunk).written.fetch_and(~pages, std::memory_order_relaxed);
}

void Backup::copy(const BackupWorker::Copy& copy) {
  copies_[copy.chunk.value] = Copying{copy.to.first.value >> kChunkOrder, copy.pages, false};
  worker_->copy(copy);
}

void Backup::copied(const BackupWorker::Result& result, const IsPlace& is_place) {
  const ChunkNo chunk = result.copy.chunk;
  const auto found = copies_.find(chunk.value);
  const Copying copying = found->second;
  copies_.erase(found);
  if (copying.released) free_.push_back(copying.part);
  if (!result.disk_error.empty()) return fail(result.disk_error);
  // Of a place that has changed hands nobody knows what was read. What was not copied is marked still.
  if (result.error != Errc::ok || copying.pages == 0 || !is_place(chunk, result.copy.from.at(0))) return;
  note_on_disk(chunk, copying.pages);
  copied_ += static_cast<std::uint64_t>(std::popcount(copying.pages));
}

void Backup::disown(ChunkNo chunk) {
  const Slots pages = at(chunk).on_disk.exchange(0, std::memory_order_acq_rel);
  at(chunk).written.fetch_or(pages, std::memory_order_relaxed);
  if (const auto copying = copies_.find(chunk.value); copying != copies_.end()) copying->second.pages = 0;
}

void Backup::forget(const Run& homes) {
  for_each_slab(homes.extent(), kChunkOrder, [&](std::uint32_t chunk, std::uint32_t first, std::uint32_t count) {
    const Slots pages = slots_below(count) << first;
    map_[chunk].on_disk.fetch_and(~pages, std::memory_order_release);
    map_[chunk].written.fetch_and(~pages, std::memory_order_relaxed);
    if (const auto copying = copies_.find(chunk); copying != copies_.end()) copying->second.pages &= ~pages;
    return true;
  });
}

void Backup::count_behind(std::uint32_t end) {
  behind_ = 0;
  for (std::uint32_t chunk = 0; chunk < end; ++chunk) {
    behind_ += static_cast<std::uint64_t>(std::popcount(map_[chunk].written.load(std::memory_order_relaxed)));
  }
}

BackupStatus Backup::status() const {
  BackupStatus status;
  status.limit = std::uint64_t{limit_} * kChunkFrames;
  status.used = std::uint64_t{touched_ - free_.size()} * kChunkFrames;
  status.peak = std::uint64_t{touched_} * kChunkFrames;
  status.copied = copied_;
  status.behind = behind_;
  status.trouble = trouble_;
  return status;
}

}  // namespace comex

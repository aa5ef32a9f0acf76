// The disk of a program under `comex run --backup`: which parts of the file are whose, and which pages are there.
//
// A part is as long as a chunk (run/chunk_map.h). The file grows as parts are taken, ahead of need and on a thread of
// its own, up to the limit or to what the disk has.
//
// A page that has landed on its node is marked by its process (run/backup_map.h), copied here, and then known to be
// here. Homes are written once: so what was copied is what was written, unless the home was given back meanwhile. See
// "A disk as the last resort" in docs/design-notes.md.
//
// Thread safety: none; belongs to the keeper's loop. Nothing here waits for the disk but open().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "base/fd.h"
#include "pool/frames.h"
#include "run/backup/backup_file.h"
#include "run/backup/backup_worker.h"
#include "run/backup_map.h"
#include "run/chunk_map.h"

namespace comex {

struct BackupConfig {
  std::string folder;       // empty: there is no backup
  std::uint64_t bytes = 0;  // of its disk that may be used
};

struct BackupStatus {
  std::uint64_t limit = 0;   // pages
  std::uint64_t used = 0;    // pages of chunks that have a part of the disk
  std::uint64_t peak = 0;    // the most that were used
  std::uint64_t copied = 0;  // pages, ever
  std::uint64_t behind = 0;  // pages that have landed, and are not on the disk yet
  std::string trouble;       // what the disk refused; empty: nothing
};

class Backup {
 public:
  // `wake` is an eventfd to write to when look() has something to do. Errc::invalid if there is no room for anything.
  static Expected<std::unique_ptr<Backup>> open(const BackupConfig& config, Frames& pool, int wake);

  [[nodiscard]] const BackupFile& file() const { return file_; }
  [[nodiscard]] std::uint32_t frames() const { return limit_ * kChunkFrames; }

  // A part of the disk. Nothing: there is no more, or it is `coming`.
  std::optional<Run> take();
  // If it is being written, it is free when that is over.
  void give_back(const Run& part);
  [[nodiscard]] bool coming() const { return growing_; }
  // Hears what the thread has done. `is_place`: whether the chunk has that place, or had it before it was lost.
  using IsPlace = std::function<bool(ChunkNo, Location)>;
  void look(const IsPlace& is_place);
  // It cannot be written any more; what is there can be read.
  void fail(std::string why);
  [[nodiscard]] bool failed() const { return failed_; }

  // --- pages ---
  [[nodiscard]] Fd map_file() const { return map_file_.duplicate(); }
  [[nodiscard]] Slots written(ChunkNo chunk) const { return at(chunk).written.load(std::memory_order_acquire); }
  [[nodiscard]] Slots on_disk(ChunkNo chunk) const { return at(chunk).on_disk.load(std::memory_order_relaxed); }
  // Pages that were written are on the disk, for that is where they were written to.
  void note_on_disk(ChunkNo chunk, Slots pages);
  // Copies pages that were written. REQUIRES: not is_copying(chunk).
  void copy(const BackupWorker::Copy& copy);
  [[nodiscard]] bool is_copying(ChunkNo chunk) const { return copies_.contains(chunk.value); }
  [[nodiscard]] bool is_busy() const { return copies_.size() >= kAtOnce; }
  // The chunk is to lose its part of the disk: nothing of it is there any more, and all that has landed is marked as if
  // it had just been written.
  void disown(ChunkNo chunk);
  // These homes are nobody's any more. To be called before they are somebody else's.
  void forget(const Run& homes);
  // Of chunks below `end`.
  void count_behind(std::uint32_t end);

  [[nodiscard]] BackupStatus status() const;
  ~Backup();
  Backup(const Backup&) = delete;
  Backup& operator=(const Backup&) = delete;

 private:
  static constexpr std::size_t kAtOnce = 8;  // chunks that are being copied: there is always one for the thread

  struct Copying {
    std::uint32_t part = 0;
    Slots pages = 0;        // those of which nothing has changed since
    bool released = false;  // the part is nobody's
  };

  Backup(BackupFile file, std::uint32_t limit) : file_(std::move(file)), limit_(limit) {}
  Expected<void> make_map();
  [[nodiscard]] BackupEntry& at(ChunkNo chunk) const { return map_[chunk.value]; }
  void grow_ahead();
  void copied(const BackupWorker::Result& result, const IsPlace& is_place);

  BackupFile file_;
  std::uint32_t limit_;              // parts
  std::uint32_t reserved_ = 0;       // of which the file has so many,
  std::uint32_t touched_ = 0;        // so many were ever taken,
  std::vector<std::uint32_t> free_;  // and these are free again
  Fd map_file_;
  BackupEntry* map_ = nullptr;
  std::map<std::uint32_t, Copying> copies_;  // by chunk
  std::uint64_t copied_ = 0;
  std::uint64_t behind_ = 0;
  bool growing_ = false;
  bool failed_ = false;
  std::string trouble_;
  std::unique_ptr<BackupWorker> worker_;  // last: uses the file
};

}  // namespace comex

// The file of --backup: has no name, so that nothing of it is left however its keeper ends, and goes past the page
// cache where the file system can do that: what is on disk is to take no memory.
//
// Thread safety: all functions from any thread, but reserve(), which one thread calls at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/expected.h"
#include "base/fd.h"
#include "fabric/transfer.h"
#include "run/chunk_map.h"

namespace comex {

class BackupFile {
 public:
  // Errc::invalid, with what to do, if the folder cannot have one.
  static Expected<BackupFile> make(const std::string& folder);

  // Makes the file so long and takes the room for it on the disk, so that writing it cannot fail for want of room.
  // Where the file system cannot promise that, it may.
  Expected<void> reserve(std::uint64_t bytes);
  // Whether reads and writes pass the page cache by.
  [[nodiscard]] bool direct() const { return direct_; }
  // Where they do not: lets go of what is in the page cache and on the disk.
  void tidy() const;
  Errc move(Direction direction, const Segment& segment) const;
  [[nodiscard]] Fd file() const { return file_.duplicate(); }

 private:
  BackupFile(Fd file, bool direct) : file_(std::move(file)), direct_(direct) {}

  Fd file_;
  bool direct_;
};

// How much of the folder's disk a backup may take if nobody says: half of what is free. Errc::invalid as make().
Expected<std::uint64_t> usual_backup_size(const std::string& folder);

}  // namespace comex

// What waits for the disk on the keeper's behalf, on a thread of its own: makes the file longer, and copies pages from
// nodes to it.
//
// Thread safety: all functions from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/aligned_bytes.h"
#include "base/expected.h"
#include "pool/frames.h"
#include "run/backup/backup_file.h"
#include "run/chunk_map.h"

namespace comex {

class BackupWorker {
 public:
  struct Copy {
    ChunkNo chunk;
    Run from;         // of a node
    Run to;           // of the disk, as long
    Slots pages = 0;  // which of them
  };
  struct Result {
    Copy copy;
    Errc error = Errc::ok;
    std::string disk_error;  // if it is the disk's
  };
  struct Growth {
    std::uint64_t bytes = 0;  // that the file has now
    std::string error;        // why they are not as many as were wanted
  };

  // `wake` is an eventfd to write to when there is a result. The file, which has so many bytes, must outlive it.
  BackupWorker(Frames& frames, BackupFile& file, std::uint64_t bytes, int wake);
  // Waits for what is under way.
  ~BackupWorker();

  // By whole parts, or by as many as there is room for. REQUIRES: bytes is more than it was before, and grown() has
  // told of that.
  void grow(std::uint64_t bytes);
  std::optional<Growth> grown();
  void copy(const Copy& copy);
  std::vector<Result> results();

 private:
  void run();
  Growth make_longer(std::uint64_t wanted);
  Result move(const Copy& copy);

  Frames& frames_;
  BackupFile& file_;
  const int wake_;
  std::uint64_t bytes_;  // of the thread, as is the buffer
  const AlignedBytes buffer_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::optional<std::uint64_t> wanted_;
  std::optional<Growth> growth_;
  std::deque<Copy> copies_;
  std::vector<Result> results_;
  bool stopping_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace comex

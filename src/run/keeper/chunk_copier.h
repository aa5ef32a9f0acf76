// Copies chunks from one node to another, one after the other, on a thread of its own and not faster than it may.
//
// Thread safety: all functions from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/aligned_bytes.h"
#include "base/expected.h"
#include "pool/frames.h"
#include "run/backup/backup_file.h"
#include "run/chunk_map.h"

namespace comex {

class ChunkCopier {
 public:
  struct Job {
    ChunkNo chunk;
    Run from;
    Run to;  // as long
  };
  struct Result {
    Job job;
    Errc error = Errc::ok;
  };

  // `wake` is an eventfd to write to when there is a result. `rate`: bytes in a second, at most. `disk`: where chunks
  // may come from, too; it must outlive this, and may be null.
  ChunkCopier(Frames& frames, const BackupFile* disk, std::uint64_t rate, int wake);
  // Waits for the transfer that is under way.
  ~ChunkCopier();

  // REQUIRES: nobody writes to either until there is a result.
  void copy(const Job& job);
  std::vector<Result> results();

 private:
  void run();
  Errc move(const Job& job);

  Frames& frames_;
  const BackupFile* const disk_;
  const std::uint64_t rate_;
  const int wake_;
  const AlignedBytes buffer_;  // of the thread
  std::mutex mutex_;           // guards all below
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<Result> results_;
  bool stopping_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace comex

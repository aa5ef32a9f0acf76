// Copies chunks from one node to another, one after the other, on a thread of its own and not faster than it may. Where
// the nodes can, the one pulls them from the other (straight_mover.h). Where pages are coded, what is copied is made of
// the other rows.
//
// Thread safety: all functions from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/aligned_bytes.h"
#include "base/expected.h"
#include "pool/frames.h"
#include "run/backup/backup_file.h"
#include "run/chunk_map.h"
#include "run/keeper/straight_mover.h"

namespace comex {

class ChunkCopier {
 public:
  struct Source {
    std::uint32_t row = 0;
    Run run;
  };
  struct Job {
    ChunkNo chunk;
    std::vector<Source> from;  // one that is copied, or as many as the code has data, which it is made of
    Run to;                    // as long as each of them
    std::uint32_t row = 0;
  };
  struct Result {
    Job job;
    Errc error = Errc::ok;
    bool straight = false;  // the pages did not come here
    // Not 0: pages may still land where they were to go, as long as the link there is the one of this number. There is
    // an error, too.
    std::uint64_t unsettled = 0;
  };

  // `wake` is an eventfd to write to when there is a result. `rate`: bytes in a second, at most. `disk`: where chunks
  // may come from, too; it must outlive this, and may be null, as `straight`: then all go through here.
  ChunkCopier(Frames& frames, std::unique_ptr<StraightMover> straight, const BackupFile* disk, Code code,
              std::uint64_t rate, int wake);
  // Waits for the transfer that is under way.
  ~ChunkCopier();

  // REQUIRES: nobody writes to either until there is a result.
  void copy(Job job);
  std::vector<Result> results();

 private:
  void run();
  [[nodiscard]] Result carry_out(Job job);
  Errc move(const Job& job);
  void make(const Job& job);
  [[nodiscard]] static std::size_t run_bytes(Code code) { return most_columns(code) * kPageSize; }
  [[nodiscard]] std::byte* buffer(std::size_t source) const { return buffer_.data() + source * run_bytes(code_); }

  Frames& frames_;
  const std::unique_ptr<StraightMover> straight_;
  const BackupFile* const disk_;
  const Code code_;
  const std::uint64_t rate_;
  const int wake_;
  const AlignedBytes buffer_;  // of the thread: a run for each source, and one for what is made of them
  std::mutex mutex_;           // guards all below
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<Result> results_;
  bool stopping_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace comex

#include "run/keeper/chunk_copier.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "run/keeper_wire.h"

namespace comex {

ChunkCopier::ChunkCopier(Frames& frames, const BackupFile* disk, std::uint64_t rate, int wake)
    : frames_(frames), disk_(disk), rate_(rate), wake_(wake), buffer_(kBatchBytes), thread_([this] { run(); }) {}

ChunkCopier::~ChunkCopier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void ChunkCopier::copy(const Job& job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(job);
  changed_.notify_all();
}

std::vector<ChunkCopier::Result> ChunkCopier::results() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

void ChunkCopier::run() {
  auto free_at = Clock::now();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    changed_.wait_until(lock, free_at, [this] { return stopping_; });
    if (stopping_) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    const Errc result = move(job);
    const Nanos took(job.from.extent().bytes() * 1'000'000'000 / rate_);
    free_at = std::max(free_at, Clock::now() - took) + took;
    lock.lock();
    results_.push_back({job, result});
    (void)::eventfd_write(wake_, 1);
  }
}

// As bulk: faults are served before it.
Errc ChunkCopier::move(const Job& job) {
  const auto go = [&](Direction direction, const Run& run) {
    const std::array segment{Segment{run.first, run.count, buffer_.data()}};
    if (run.node == keeper_wire::kDisk) return disk_->move(direction, segment[0]);
    Transfer transfer(direction, segment, Priority::bulk);
    frames_.submit(run.node, transfer);
    return frames_.wait(run.node, transfer);
  };
  const Errc read = go(Direction::read, job.from);
  return read == Errc::ok ? go(Direction::write, job.to) : read;
}

}  // namespace comex

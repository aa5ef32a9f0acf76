#include "run/keeper/chunk_copier.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "pool/erasure.h"
#include "run/keeper_wire.h"

namespace comex {

ChunkCopier::ChunkCopier(Frames& frames, std::unique_ptr<StraightMover> straight, const BackupFile* disk, Code code,
                         std::uint64_t rate, int wake)
    : frames_(frames),
      straight_(std::move(straight)),
      disk_(disk),
      code_(code),
      rate_(rate),
      wake_(wake),
      buffer_((code.data + 1) * run_bytes(code)),
      thread_([this] { run(); }) {}

ChunkCopier::~ChunkCopier() {
  if (straight_) straight_->stop();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void ChunkCopier::copy(Job job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
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
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const Nanos took(job.to.extent().bytes() * job.from.size() * 1'000'000'000 / rate_);
    Result result = carry_out(std::move(job));
    free_at = std::max(free_at, Clock::now() - took) + took;
    lock.lock();
    results_.push_back(std::move(result));
    (void)::eventfd_write(wake_, 1);
  }
}

// Straight, if it can be: what is copied as it is, from one node to another.
ChunkCopier::Result ChunkCopier::carry_out(Job job) {
  using Outcome = StraightMover::Outcome;
  StraightMover::Result straight;
  const bool as_it_is = job.from.size() == 1 && job.from[0].run.node != keeper_wire::kDisk;
  if (straight_ && as_it_is) straight = straight_->move(job.from[0].run, job.to);
  if (straight.outcome == Outcome::landed) return {std::move(job), Errc::ok, true, 0};
  if (straight.outcome == Outcome::unknown) return {std::move(job), Errc::timeout, false, straight.link};
  const Errc error = move(job);
  return {std::move(job), error, false, 0};
}

// As bulk: faults are served before it.
Errc ChunkCopier::move(const Job& job) {
  const auto go = [&](Direction direction, const Run& run, std::byte* local) {
    const std::array segment{Segment{run.first, run.count, local}};
    if (run.node == keeper_wire::kDisk) return disk_->move(direction, segment[0]);
    Transfer transfer(direction, segment, Priority::bulk);
    frames_.submit(run.node, transfer);
    return frames_.wait(run.node, transfer);
  };
  for (std::size_t i = 0; i < job.from.size(); ++i) {
    const Errc read = go(Direction::read, job.from[i].run, buffer(i));
    if (read != Errc::ok) return read;
  }
  if (job.from.size() == 1) return go(Direction::write, job.to, buffer(0));
  make(job);
  return go(Direction::write, job.to, buffer(code_.data));
}

void ChunkCopier::make(const Job& job) {
  const Erasure erasure(code_);
  std::array<std::uint32_t, Code::kMostData> rows{};
  for (std::uint32_t i = 0; i < code_.data; ++i) rows[i] = job.from[i].row;
  const Factors factors = erasure.solve(job.row, std::span(rows).first(code_.data));
  for (std::size_t page = 0; page < job.to.count; ++page) {
    Pages pages{};
    for (std::uint32_t i = 0; i < code_.data; ++i) pages[i] = buffer(i) + page * kPageSize;
    erasure.combine(factors, pages, buffer(code_.data) + page * kPageSize);
  }
}

}  // namespace comex

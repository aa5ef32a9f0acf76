#include "run/backup/backup_worker.h"

#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/units.h"

namespace comex {
namespace {

// Calls f(first, count) for each run of neighbours.
template <typename F>
void for_each_run_of(Slots pages, F&& f) {
  while (pages != 0) {
    const auto first = static_cast<std::uint32_t>(std::countr_zero(pages));
    const auto count = static_cast<std::uint32_t>(std::countr_one(pages >> first));
    f(first, count);
    pages &= ~(slots_below(count) << first);
  }
}

}  // namespace

BackupWorker::BackupWorker(Frames& frames, BackupFile& file, std::uint64_t bytes, int wake)
    : frames_(frames), file_(file), wake_(wake), bytes_(bytes), buffer_(kBatchBytes), thread_([this] { run(); }) {}

BackupWorker::~BackupWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void BackupWorker::grow(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  wanted_ = bytes;
  changed_.notify_all();
}

std::optional<BackupWorker::Growth> BackupWorker::grown() {
  const std::lock_guard lock(mutex_);
  return std::exchange(growth_, std::nullopt);
}

void BackupWorker::copy(const Copy& copy) {
  const std::lock_guard lock(mutex_);
  copies_.push_back(copy);
  changed_.notify_all();
}

std::vector<BackupWorker::Result> BackupWorker::results() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

void BackupWorker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || wanted_ || !copies_.empty(); });
    if (stopping_) return;
    if (const auto wanted = std::exchange(wanted_, std::nullopt)) {
      lock.unlock();
      Growth growth = make_longer(*wanted);
      lock.lock();
      growth_ = std::move(growth);
    } else {
      const Copy copy = copies_.front();
      copies_.pop_front();
      lock.unlock();
      Result result = move(copy);
      file_.tidy();
      lock.lock();
      results_.push_back(std::move(result));
    }
    (void)::eventfd_write(wake_, 1);
  }
}

BackupWorker::Growth BackupWorker::make_longer(std::uint64_t wanted) {
  Growth growth;
  for (std::uint64_t more = wanted - bytes_; more >= kBatchBytes;) {
    const auto reserved = file_.reserve(bytes_ + more);
    if (reserved) {
      bytes_ += more;
      break;
    }
    growth.error = reserved.error().message;
    more = more / 2 / kBatchBytes * kBatchBytes;
  }
  growth.bytes = bytes_;
  return growth;
}

// As bulk: faults are served before it.
BackupWorker::Result BackupWorker::move(const Copy& copy) {
  Result result{copy, Errc::ok, ""};
  std::array<Segment, kChunkFrames> segments;
  std::size_t count = 0;
  for_each_run_of(copy.pages, [&](std::uint32_t first, std::uint32_t pages) {
    segments[count++] = Segment{copy.from.first + first, pages, buffer_.data() + first * kPageSize};
  });
  Transfer read(Direction::read, std::span(segments).first(count), Priority::bulk);
  frames_.submit(copy.from.node, read);
  result.error = frames_.wait(copy.from.node, read);
  if (result.error != Errc::ok) return result;
  for_each_run_of(copy.pages, [&](std::uint32_t first, std::uint32_t pages) {
    if (result.error != Errc::ok) return;
    const Segment segment{copy.to.first + first, pages, buffer_.data() + first * kPageSize};
    result.error = file_.move(Direction::write, segment);
    if (result.error != Errc::ok) result.disk_error = std::strerror(errno);
  });
  return result;
}

}  // namespace comex

#include "run/keeper/progress_writer.h"

#include <algorithm>
#include <cstring>

namespace comex {
namespace {

constexpr Millis kSpan{1'000};  // that a rate is of

template <typename T>
void put(std::atomic<T>& into, T value) {
  into.store(value, std::memory_order_relaxed);
}

}  // namespace

ProgressWriter::ProgressWriter(RunProgress& progress, const std::string& name, std::uint32_t copies, Code code)
    : progress_(progress) {
  const std::size_t size = std::min(name.size(), progress_.name.size() - 1);
  std::memcpy(progress_.name.data(), name.data(), size);
  put(progress_.copies, copies);
  put(progress_.data, code.data);
  put(progress_.parity, code.parity);
  progress_.magic.store(RunProgress::kMagic, std::memory_order_release);
}

void ProgressWriter::write(const KeeperStatus& status, const std::vector<MemberStatus>& nodes, Clock::time_point now) {
  std::uint32_t away = 0;
  std::uint64_t held = 0;
  for (const MemberStatus& node : nodes) {
    away += node.in_use > 0 && node.state != MemberState::up ? 1 : 0;
    held += node.in_use;
  }
  if (status.thin == 0) mended_before_ = status.mended;
  if (status.to_move == 0) moved_before_ = status.moved;
  put(progress_.processes, static_cast<std::uint32_t>(status.processes));
  put(progress_.nodes_away, away);
  put(progress_.stuck, status.stuck);
  put(progress_.pages, status.used);
  put(progress_.held, held);
  put(progress_.free, status.free);
  put(progress_.dead, status.dead);
  put(progress_.on_disk, status.on_disk);
  put(progress_.behind, progress_.copies.load(std::memory_order_relaxed) == 1 ? status.backup.behind : 0);
  put(progress_.copied, status.mended - mended_before_);
  put(progress_.to_copy, status.mended - mended_before_ + status.thin);
  put(progress_.moved, status.moved - moved_before_);
  put(progress_.to_move, status.moved - moved_before_ + status.to_move);
  put(progress_.straight, status.straight);
  const std::uint64_t done = status.mended + status.moved;
  if (now < since_ + kSpan) return;
  const double seconds = std::chrono::duration<double>(now - since_).count();
  if (since_ != Clock::time_point{}) put(progress_.rate, static_cast<std::uint64_t>(double(done - done_) / seconds));
  done_ = done;
  since_ = now;
}

}  // namespace comex

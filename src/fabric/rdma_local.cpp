#include "fabric/rdma_local.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace comex {

Expected<void> RdmaLocal::add(std::span<std::byte> memory) {
  auto registered = domain_->enroll(memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
  if (!registered) return std::move(registered).error();
  const std::lock_guard lock(mutex_);
  if (count_ == kMost) return Error{Errc::busy, "too much memory is registered with this link already"};
  areas_[count_++] = Area{memory, *std::move(registered)};
  return {};
}

void RdmaLocal::remove(std::span<std::byte> memory) noexcept {
  Area gone;  // deregistered when the lock is free again
  const std::lock_guard lock(mutex_);
  const auto end = areas_.begin() + static_cast<std::ptrdiff_t>(count_);
  const auto found =
      std::find_if(areas_.begin(), end, [&](const Area& area) { return area.memory.data() == memory.data(); });
  if (found == end) return;
  std::swap(gone, *found);
  std::swap(*found, areas_[--count_]);
}

std::optional<std::uint32_t> RdmaLocal::find(const std::byte* memory, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  for (const Area& area : std::span(areas_).first(count_)) {
    const auto offset = static_cast<std::size_t>(memory - area.memory.data());  // huge, if it lies before
    if (offset < area.memory.size() && bytes <= area.memory.size() - offset) return area.registered.local_key();
  }
  return std::nullopt;
}

}  // namespace comex

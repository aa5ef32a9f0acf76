#include "fabric/slab_link.h"

#include <algorithm>

#include "fabric/shm_window.h"

namespace comex {

SlabLink::SlabLink(Opened opened, const LinkOptions& options)
    : ChannelLink(std::move(opened), options), held_(ShmWindow::slabs_of(node_.frames, node_.slab_order)) {}

Expected<void> SlabLink::reach(std::span<const Extent> extents) {
  const std::lock_guard lock(reach_mutex_);
  std::vector<std::uint32_t> missing;
  for (const auto& extent : extents) {
    if (extent.count == 0 || extent.end() > node_.frames) return Error{Errc::invalid, "frames beyond the node's arena"};
    for_each_slab(extent, node_.slab_order, [&](std::uint32_t slab, std::uint32_t, std::uint32_t) {
      if (held_[slab] == 0) missing.push_back(slab);
      return true;
    });
  }
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  for (std::size_t at = 0; at < missing.size(); at += wire::kMaxSlabsPerMap) {
    const auto count = std::min<std::size_t>(wire::kMaxSlabsPerMap, missing.size() - at);
    if (auto done = open_slabs(std::span(missing).subspan(at, count)); !done) return done;
  }
  for (const auto& extent : extents) {
    for_each_slab(extent, node_.slab_order, [&](std::uint32_t slab, std::uint32_t, std::uint32_t frames) {
      held_[slab] += frames;
      return true;
    });
  }
  return {};
}

void SlabLink::forget(std::span<const Extent> extents) noexcept {
  const std::lock_guard lock(reach_mutex_);
  for (const auto& extent : extents) {
    if (extent.end() > node_.frames) continue;
    for_each_slab(extent, node_.slab_order, [&](std::uint32_t slab, std::uint32_t, std::uint32_t frames) {
      held_[slab] -= std::min(frames, held_[slab]);
      if (held_[slab] == 0) close_slab(slab);
      return true;
    });
  }
}

}  // namespace comex

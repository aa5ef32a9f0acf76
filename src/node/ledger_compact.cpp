// Slabs that are emptied so that there are long extents again. See "Compaction" in docs/design-notes.md.
#include <map>

#include "node/ledger.h"

namespace comex {
namespace {

constexpr std::uint32_t kFreeSlabs = 32;   // one slab in so many is to be wholly free
constexpr std::uint32_t kLeastSlabs = 64;  // of a node that has fewer, one slab is too much to close

}  // namespace

void Ledger::compact(Clock::time_point now) {
  adjusted_at_ = now;
  if (emptied_ != emptied_before_) compact_until_ = now + config_.compact_patience;
  emptied_before_ = emptied_;
  if (compacting_ > 0 && now >= compact_until_) stop_compacting(now);
  if (config_.compact_above == 0 || now < compact_again_ || present() < kLeastSlabs) return;
  const std::uint32_t wanted = present() / kFreeSlabs;
  while (buddy_.free_slabs() + withheld_.size() + compacting_ < wanted) {
    const auto slab = sparse_slab();
    if (!slab) return;
    if (compacting_ == 0) compact_until_ = now + config_.compact_patience;
    close(*slab, SlabState::compacting);
  }
}

// The one with the least to move, if it pays, and if there is room for that in other slabs of its zone: whoever took a
// free slab for it would gain nothing.
std::optional<std::uint32_t> Ledger::sparse_slab() const {
  if (buddy_.free_frames() < (present() << buddy_.slab_order()) / config_.compact_above) return std::nullopt;
  const std::uint32_t size = std::uint32_t{1} << buddy_.slab_order();
  std::map<ZoneId, std::uint32_t> moving;
  for (std::uint32_t slab = 0; compacting_ > 0 && slab < arena_.slabs(); ++slab) {
    if (slabs_[slab] == SlabState::compacting) moving[*buddy_.zone_of(slab)] += live_[slab];
  }
  std::optional<std::uint32_t> best;
  for (std::uint32_t slab = 0; slab < arena_.slabs(); ++slab) {
    if (slabs_[slab] != SlabState::open || live_[slab] == 0 || live_[slab] > size / 4 * 3) continue;
    if (best && live_[slab] >= live_[*best]) continue;
    const ZoneId zone = *buddy_.zone_of(slab);
    if (buddy_.free_in_zone(zone) >= size + moving[zone]) best = slab;
  }
  return best;
}

void Ledger::stop_compacting(Clock::time_point now) {
  compact_again_ = now + config_.compact_pause;
  for (std::uint32_t slab = 0; slab < arena_.slabs(); ++slab) {
    if (slabs_[slab] == SlabState::compacting) reopen(slab);
  }
}

}  // namespace comex

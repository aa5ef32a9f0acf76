// Slabs that are emptied, so that their memory can go back to the host. See "Giving memory back" in
// docs/design-notes.md.
#include <algorithm>

#include "node/ledger.h"

namespace comex {
namespace {

// Slabs that get their memory back before others have their turn: some 10 ms.
constexpr std::uint32_t kBackAtOnce = 16;

}  // namespace

void Ledger::aim(std::uint32_t frames) {
  const std::lock_guard lock(mutex_);
  goal_ = std::min(frames >> buddy_.slab_order(), arena_.slabs());
  drop_free();
  close_some();
}

bool Ledger::adjust(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  compact(now);
  drop_free();
  close_some();
  open_some();
  for (std::uint32_t i = 0; i < kBackAtOnce && present() < goal_; ++i) {
    if (!bring_back()) return false;
  }
  return present() < goal_;
}

// --- fewer ---

// Its memory goes back to the host. False if that cannot be now. REQUIRES: wholly free, not withheld.
bool Ledger::drop(std::uint32_t slab) {
  if (!arena_.drop(slab)) return false;
  buddy_.withhold(slab);
  clear_dirty(slab);
  slabs_[slab] = SlabState::absent;
  ++absent_;
  return true;
}

void Ledger::drop_free() {
  // What waits for fresh memory needs none.
  while (present() > goal_ && !withheld_.empty()) {
    buddy_.restore(withheld_.front());
    if (!drop(withheld_.front())) return buddy_.withhold(withheld_.front());
    withheld_.pop_front();
  }
  while (present() > goal_) {
    const auto slab = buddy_.a_free_slab();
    if (!slab || !drop(*slab)) return;
  }
}

// Those with the least to move.
void Ledger::close_some() {
  while (present() - closed_ > goal_) {
    std::uint32_t best = arena_.slabs();
    for (std::uint32_t slab = 0; slab < arena_.slabs(); ++slab) {
      const bool in_use = slabs_[slab] == SlabState::open || slabs_[slab] == SlabState::compacting;
      if (!in_use || live_[slab] == 0) continue;
      if (best == arena_.slabs() || live_[slab] < live_[best]) best = slab;
    }
    if (best == arena_.slabs()) return;
    close(best, SlabState::closed);
  }
}

void Ledger::close(std::uint32_t slab, SlabState why) {
  if (slabs_[slab] == SlabState::open) buddy_.claim(slab);
  if (slabs_[slab] == SlabState::compacting) --compacting_;
  slabs_[slab] = why;
  ++(why == SlabState::closed ? closed_ : compacting_);
}

// Frames of it came back. The others that nobody refers to are ours, or in quarantine.
void Ledger::settle_closed(std::uint32_t slab) {
  if (live_[slab] > 0) return;
  quarantine_.erase(slab);
  const bool compacted = slabs_[slab] == SlabState::compacting;
  slabs_[slab] = SlabState::open;
  --(compacted ? compacting_ : closed_);
  emptied_ += compacted ? 1 : 0;
  free_run(Extent{FrameNo{slab << buddy_.slab_order()}, std::uint32_t{1} << buddy_.slab_order()});
}

std::vector<std::uint32_t> Ledger::asked_of(const Client& client) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint32_t> slabs;
  if (closed_ + compacting_ == 0) return slabs;
  for (std::uint32_t slab = 0; slab < slabs_.size(); ++slab) {
    if (is_asked(slab) && client.holdings.holds_any_of_slab(slab)) slabs.push_back(slab);
  }
  return slabs;
}

wire::NodeLoad Ledger::load_for(const Client& client) const {
  const std::lock_guard lock(mutex_);
  wire::NodeLoad load = load_now();
  for (std::uint32_t slab = 0; closed_ + compacting_ > 0 && slab < slabs_.size(); ++slab) {
    if (is_asked(slab)) load.asked += client.holdings.frames_of_slab(slab);
  }
  return load;
}

// --- more ---

// Those with the most to move.
void Ledger::open_some() {
  while (closed_ > 0 && present() - closed_ < goal_) {
    std::uint32_t best = arena_.slabs();
    for (std::uint32_t slab = 0; slab < arena_.slabs(); ++slab) {
      if (slabs_[slab] != SlabState::closed) continue;
      if (best == arena_.slabs() || live_[slab] > live_[best]) best = slab;
    }
    reopen(best);
  }
}

void Ledger::reopen(std::uint32_t slab) {
  --(slabs_[slab] == SlabState::closed ? closed_ : compacting_);
  slabs_[slab] = SlabState::open;
  const std::uint32_t first = slab << buddy_.slab_order();
  const std::uint32_t size = std::uint32_t{1} << buddy_.slab_order();
  std::vector<bool> free(size);
  for (std::uint32_t i = 0; i < size; ++i) free[i] = references_[first + i] == 0;
  if (const auto found = quarantine_.find(slab); found != quarantine_.end()) {
    for (const Extent& run : found->second) {
      for (std::uint32_t i = 0; i < run.count; ++i) free[run.first.value - first + i] = false;
    }
  }
  std::uint32_t run = 0;
  for (std::uint32_t i = 0; i <= size; ++i) {
    if (i < size && free[i]) {
      ++run;
    } else if (run > 0) {
      free_run(Extent{FrameNo{first + i - run}, run});
      run = 0;
    }
  }
}

// One slab that is absent. False if the host has no memory for it now.
bool Ledger::bring_back() {
  const auto found = std::find(slabs_.begin(), slabs_.end(), SlabState::absent);
  const auto slab = static_cast<std::uint32_t>(found - slabs_.begin());
  if (found == slabs_.end() || !arena_.restore(slab)) return false;
  *found = SlabState::open;
  --absent_;
  buddy_.restore(slab);
  return true;
}

void Ledger::clear_dirty(std::uint32_t slab) {
  const auto first = dirty_.begin() + (std::ptrdiff_t{slab} << buddy_.slab_order());
  std::fill(first, first + (std::ptrdiff_t{1} << buddy_.slab_order()), false);
}

}  // namespace comex

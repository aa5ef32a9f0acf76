// Writes to pages that are there, but guarded: the guard is lifted, and with it those around it where that pays.
#include <algorithm>
#include <bit>

#include "pager/pager.h"

namespace comex {
namespace {

constexpr std::uint32_t kNear = 4;       // pages to either side: of those,
constexpr std::uint32_t kEnough = 2;     // ... so many have been written to, after they had been here clean
constexpr std::uint32_t kFarthest = 16;  // pages to either side whose guards are lifted

}  // namespace

// Pages around one that is written to, in its block, that are clean, and locked by this thread.
struct Pager::Around {
  BlockNo block;
  Word* words = nullptr;
  Slots pages = 0;

  [[nodiscard]] Entry entry(std::uint32_t slot) const noexcept {
    return Entry(words[slot].load(std::memory_order_relaxed));
  }
  [[nodiscard]] PageRun row_with(PageNo page) const noexcept {
    const PageNo start = BlockNo::of(page).first();
    const Slots all = pages | Slots{1} << (page - start);
    return {start + static_cast<std::uint64_t>(std::countr_zero(all)), static_cast<std::uint64_t>(std::popcount(all))};
  }
};

Served Pager::dirty(PageNo page, Word& word, Entry entry, Faulter& faulter) noexcept {
  const auto start = faulter.timed ? Clock::now() : Clock::time_point();
  // What comes next in a stream will be placed as written, if most of it is.
  bool streams = false;
  if (entry.clean()) with_history(faulter, [&](History& history) { streams = history.wrote(page); });
  const Around around = entry.clean() && !streams ? take_around(page, entry.location()) : Around{};
  const PageRun row = around.row_with(page);
  bool lifted = memory_.unguard(row) == Errc::ok;
  leave_around(around);
  if (!lifted && row.count > 1) lifted = memory_.unguard(PageRun{page, 1}) == Errc::ok;
  // If the entry is not guarded, somebody else was faster, and lifting the guard again did no harm.
  if (!lifted || !entry.guarded()) {
    table_->unlock(page, word);
    return lifted ? Served::already : Served::failed;
  }
  if (!entry.clean()) {
    table_->unlock(page, word, Entry(PageState::resident));
    fences_.followed();
    return Served::written;
  }
  PageTable::revise(word, true);
  table_->unlock(page, word, Entry(PageState::resident));
  release(entry.location());
  lifts_.wrote(page);
  WriteGuess& guess = guesses_[is_far(entry.location())];
  if (faulter.timed) guess.lifted(static_cast<std::uint64_t>(Nanos(Clock::now() - start).count()));
  if (guess.counts(faulter.timed)) guess.written();
  return Served::written;
}

// Those next to it, in one row with it, if enough pages near it have been written to and lifting pays.
Pager::Around Pager::take_around(PageNo page, Location home) noexcept {
  Around around{.block = BlockNo::of(page)};
  around.words = table_->find(around.block.first());
  const auto slot = static_cast<std::uint32_t>(page - around.block.first());
  const std::uint32_t from = slot - std::min(slot, kNear);
  const std::uint32_t to = std::min<std::uint32_t>(slot + kNear, kBlockPages - 1);
  std::uint32_t written = 0;
  for (std::uint32_t i = from; i <= to; ++i) {
    const Entry entry = around.entry(i);
    written += i != slot && entry.is(PageState::resident) && !entry.clean() && entry.revised();
  }
  if (written < kEnough || full()) return around;
  // Most of the time there is no such row.
  Slots row = 0;
  for (std::uint32_t i = slot; i-- > 0 && slot - i <= kFarthest && around.entry(i).clean();) row |= Slots{1} << i;
  for (std::uint32_t i = slot + 1; i < kBlockPages && i - slot <= kFarthest && around.entry(i).clean(); ++i) {
    row |= Slots{1} << i;
  }
  if (row == 0) return around;
  const bool far = is_far(home);
  if (lifts_.look()) {
    lifts_.watch(around.block, row, static_cast<std::uint32_t>(std::popcount(row)));
  } else if (guesses_[far].pays(lifts_.share(), price_of_leaving(far))) {
    lock_row(around, slot, row);
  }
  return around;
}

// As far as nobody else has them, from the page to either side.
void Pager::lock_row(Around& around, std::uint32_t slot, Slots row) noexcept {
  const auto lock = [&](std::uint32_t i) {
    Entry was;
    if ((row >> i & 1) == 0 || !table_->try_lock(around.words[i], PageState::resident, &was)) return false;
    if (was.clean() && !was.hidden()) {
      around.pages |= Slots{1} << i;
      return true;
    }
    table_->unlock(around.block.first() + i, around.words[i]);
    return false;
  };
  for (std::uint32_t i = slot; i-- > 0 && lock(i);) {
  }
  for (std::uint32_t i = slot + 1; i < kBlockPages && lock(i); ++i) {
  }
}

// They count as written from now on, also when they come the next time. Also if the kernel has refused: it may have
// lifted the guards of some of them before it did.
void Pager::leave_around(const Around& around) noexcept {
  for_each_slot(around.pages, [&](std::uint32_t slot) {
    Word& word = around.words[slot];
    const PageNo page = around.block.first() + slot;
    const Location home = around.entry(slot).location();
    PageTable::revise(word, true);
    table_->unlock(page, word, Entry(PageState::resident));
    release(home);
  });
}

}  // namespace comex

// How a block leaves: locked, seized, copied to staging and sealed, discarded, unlocked, in this order. Why no write is
// lost on the way: "A write that races with eviction" in docs/design-notes.md.
#include <bit>
#include <cstring>

#include "pager/pager.h"

namespace comex {
namespace {

// The longest that one call of evict() waits for staging to have room. It is called again if need be.
constexpr Millis kRoomPatience{100};
// Blocks in a row of which nothing could be taken: 256 MiB at most are looked through in one call.
constexpr std::uint32_t kMostInVain = 1024;
// Pages that stay, between two that leave: if there are more, two guards cost less than to lift so many.
constexpr unsigned kMostBeside = 2;
// ... and if more than this share of them is written to again. Then only one block in so many is tried.
constexpr std::uint32_t kMostFences = Odds::kOne / 4;
constexpr std::uint32_t kTryFences = 16;
// Blocks in a row of which the policy spared all that was there: then the next is taken all the same.
constexpr std::uint32_t kMostSpared = 64;

}  // namespace

// The pages of a block that are in the hands of this thread.
struct Pager::Taken {
  BlockNo block;
  unsigned queue = 0;
  Word* words = nullptr;
  Slots locked = 0;      // by this thread; faults on the others go on
  Slots local = 0;       // of those: there, and to go
  Slots clean = 0;       // of those
  Slots hidden = 0;      // of those: not to be read as the program would
  Slots stay = 0;        // locked, and not to go after all: for want of room, or pinned by the kernel
  Slots beside = 0;      // locked as well, but not among those above: they are to stay, and may be guarded
  Slots moved = 0;       // of those that go: they are not there any more
  bool remains = false;  // there is, or may soon be, a local page that could not be taken
  bool spared = false;   // ... that the policy spares
};

// Blocks that are taken and still locked: a few pages of each are discarded together, with one shootdown.
struct Pager::Load {
  static constexpr std::size_t kMostBlocks = 32;
  static constexpr std::size_t kEnoughPages = 2 * kBlockPages;  // with more there is no more to be gained
  static constexpr std::size_t kEnoughRuns = 128;

  void add(const Taken& taken) noexcept {
    blocks[count++] = taken;
    pages += static_cast<std::uint64_t>(std::popcount(taken.local));
    for_each_run(taken.block, taken.locked & ~taken.stay, taken.local & ~taken.moved,
                 [&](PageRun run) { runs[run_count++] = run; });
  }
  [[nodiscard]] bool full() const noexcept {
    return count == kMostBlocks || pages >= kEnoughPages || run_count >= kEnoughRuns;
  }

  std::size_t count = 0;
  std::uint64_t pages = 0;
  std::size_t run_count = 0;
  std::array<Taken, kMostBlocks> blocks;
  std::array<PageRun, kEnoughRuns + kBlockPages> runs;
};

std::uint64_t Pager::evict(std::uint64_t want) noexcept {
  std::uint64_t taken = 0;
  Load load;
  // Blocks whose pages are all pinned or busy go to the end of the queue: once round is enough. Others leave it, or
  // another thread takes them, and are not seen again.
  std::optional<Victim> first_in_vain;
  std::uint32_t in_vain = 0;
  bool last_in_vain = false;
  std::uint32_t spared = 0;
  bool room = !full();
  while (taken < want && in_vain < kMostInVain) {
    if (room) {
      Errc waited = staging_->wait_for_room(Deadline(Millis(0)));
      if (waited != Errc::ok) {
        unload(load);  // nothing is locked while we wait
        waited = staging_->wait_for_room(Deadline(kRoomPatience));
      }
      if (waited == Errc::timeout || (waited != Errc::ok && !refused())) break;
      room = waited == Errc::ok;
      if (!room) full_.store(true, std::memory_order_relaxed);
    }
    const auto victim = victims_.next(last_in_vain);
    if (!victim) break;
    const Taken block = take_out(*victim, room, spared < kMostSpared);
    if (block.local != 0) {
      load.add(block);
    } else {
      let_leave(block);
    }
    if (load.full()) unload(load);
    taken += static_cast<std::uint64_t>(std::popcount(block.local));
    last_in_vain = block.local == 0 && !block.spared && block.remains;
    if (block.local != 0) {
      first_in_vain.reset();
      in_vain = spared = 0;
    } else if (block.spared) {
      ++spared;
    } else {
      if (first_in_vain == victim) break;
      if (last_in_vain && !first_in_vain) first_in_vain = victim;
      in_vain += last_in_vain;
    }
  }
  unload(load);
  return taken;
}

// Without room only pages that need not be sent leave.
Pager::Taken Pager::take_out(Victim victim, bool room, bool mercy) noexcept {
  Taken taken = take(victim, mercy);
  const Slots dirty = taken.local & ~taken.clean;
  if (dirty == 0) return taken;
  taken.stay = dirty;
  if (room) {
    take_beside(taken, dirty);
    const Seized seized = memory_.seize(victim.block, taken.locked, dirty, taken.clean, taken.beside);
    leave_beside(taken, seized.fenced);
    taken.stay = dirty & ~send(taken, seized);
    memory_.release(seized, seized.pages & taken.stay);
    taken.moved = seized.moved & ~taken.stay;
  }
  taken.local &= ~taken.stay;
  taken.remains = taken.remains || taken.stay != 0;
  return taken;
}

// What stays, in another queue or because it is spared, lies between pages that leave, and each gap is another guard,
// with another shootdown. So those that stay are locked, too, and guarded along with the others, if they are already,
// or where there are few in a row and few of them are written to soon.
void Pager::take_beside(Taken& taken, Slots dirty) noexcept {
  const unsigned first = static_cast<unsigned>(std::countr_zero(dirty));
  const unsigned end = 64 - static_cast<unsigned>(std::countl_zero(dirty));
  const Slots others = slots_below(end - first) << first & ~taken.locked;
  Slots guarded = 0;
  for_each_slot(others, [&](std::uint32_t slot) {
    Word& word = taken.words[slot];
    Entry was;
    if (!table_->try_lock(word, PageState::resident, &was)) return;
    taken.beside |= Slots{1} << slot;
    guarded |= Slots{was.guarded()} << slot;
  });
  // Locked before the look: see "A write that races with eviction".
  Slots not_so = pins_.pinned(taken.block) & taken.beside;
  const bool worth =
      fences_.share() <= kMostFences || fence_turn_.fetch_add(1, std::memory_order_relaxed) % kTryFences == 0;
  for (Slots rest = taken.beside & ~guarded; rest != 0;) {
    const auto at = static_cast<unsigned>(std::countr_zero(rest));
    const auto length = static_cast<unsigned>(std::countr_one(rest >> at));
    const Slots row = slots_below(length) << at;
    if (!worth || length > kMostBeside) not_so |= row;
    rest &= ~row;
  }
  for_each_slot(not_so, [&](std::uint32_t slot) { table_->unlock(taken.block.first() + slot, taken.words[slot]); });
  taken.beside &= ~not_so;
}

void Pager::leave_beside(Taken& taken, Slots fenced) noexcept {
  std::uint32_t count = 0;
  for_each_slot(taken.beside, [&](std::uint32_t slot) {
    Word& word = taken.words[slot];
    const PageNo page = taken.block.first() + slot;
    const bool before = Entry(word.load(std::memory_order_relaxed)).guarded();
    if (before || (fenced >> slot & 1) == 0) return table_->unlock(page, word);
    table_->unlock(page, word, Entry::fenced());
    ++count;
  });
  taken.beside = 0;
  if (count > 0) fences_.tried(count);
}

// The rest of the way: discards what is still there, and unlocks.
void Pager::unload(Load& load) noexcept {
  if (load.run_count > 0) (void)memory_.discard(std::span(load.runs).first(load.run_count));
  for (std::size_t i = 0; i < load.count; ++i) let_leave(load.blocks[i]);
  load.count = load.run_count = 0;
  load.pages = 0;
}

void Pager::let_leave(const Taken& taken) noexcept {
  const auto pages = static_cast<std::uint64_t>(std::popcount(taken.local));
  const Mark mark = pages > 0 ? victims_.leave(taken.queue, pages) : Mark{};
  for_each_slot(taken.locked, [&](std::uint32_t slot) {
    Word& word = taken.words[slot];
    const PageNo page = taken.block.first() + slot;
    const bool leaves = (taken.local >> slot & 1) != 0;
    if (leaves) PageTable::mark(word, mark);
    if (!leaves || (taken.clean >> slot & 1) == 0) return table_->unlock(page, word);
    table_->unlock(page, word, Entry::remote(Entry(word.load(std::memory_order_relaxed)).location()));
  });
  if (taken.remains) admit(taken.block, taken.queue);
  budget_.release(pages);
  PagerStats::add(stats_->evicted, pages);
  PagerStats::add(stats_->dropped, static_cast<std::uint64_t>(std::popcount(taken.local & taken.clean)));
}

// Locks every page of the block that nobody else has, whatever its state, but for local ones that are in another queue:
// see "A write that races with eviction".
Pager::Taken Pager::take(Victim victim, bool mercy) noexcept {
  const BlockNo block = victim.block;
  Taken taken{.block = block, .queue = victim.queue, .words = table_->find(block.first())};
  // From here on, who makes a page of this block local queues it again. Who has done so before is seen below.
  taken.words[victim.queue].fetch_and(~Entry::kQueued, std::memory_order_seq_cst);
  const auto elsewhere = [&](Entry entry) {
    return entry.is(PageState::resident) && victims_.queue_of(entry.mark()) != victim.queue;
  };
  for (std::uint32_t slot = 0; slot < kBlockPages; ++slot) {
    Word& word = taken.words[slot];
    Entry entry(word.load(std::memory_order_relaxed));
    if (entry.is(PageState::none) || (!entry.busy() && elsewhere(entry))) continue;
    // What counts is what it is when it is taken: the program may have hidden it since.
    if (entry.busy() || !table_->try_lock(word, entry.state(), &entry)) {
      taken.remains = true;
      continue;
    }
    Mark mark = entry.mark();
    if (elsewhere(entry)) {
      table_->unlock(block.first() + slot, word);
      continue;
    }
    if (mercy && entry.is(PageState::resident) && victims_.spare(mark)) {
      taken.spared = true;
      PageTable::mark(word, mark);
      admit(block, victims_.queue_of(mark));
      table_->unlock(block.first() + slot, word);
      continue;
    }
    taken.locked |= Slots{1} << slot;
    if (!entry.is(PageState::resident)) continue;
    if (entry.hidden()) taken.hidden |= Slots{1} << slot;
    taken.local |= Slots{1} << slot;
  }
  const Slots unreadable = memory_.can_peek() ? 0 : taken.hidden;
  const Slots pinned = (pins_.pinned(block) | unreadable) & taken.locked;
  for_each_slot(pinned, [&](std::uint32_t slot) { table_->unlock(block.first() + slot, taken.words[slot]); });
  taken.remains = taken.remains || (pinned & taken.local) != 0;
  taken.locked &= ~pinned;
  taken.local &= ~pinned;
  for_each_slot(taken.local, [&](std::uint32_t slot) {
    const bool clean = Entry(taken.words[slot].load(std::memory_order_relaxed)).clean();
    taken.clean |= Slots{clean} << slot;
  });
  return taken;
}

// Copies pages to staging. Returns those for which there was room, and which could be read.
Slots Pager::send(const Taken& taken, const Seized& seized) noexcept {
  std::array<Tag, kBlockPages> tags;
  std::uint32_t count = 0;
  for_each_slot(seized.pages, [&](std::uint32_t slot) { tags[count++] = (taken.block.first() + slot).value; });
  Slots sent = 0;
  for (std::uint32_t done = 0; done < count;) {
    const auto room = staging_->reserve(std::span(tags).subspan(done, count - done));
    if (!room) break;
    std::uint64_t abandoned = 0;
    for (std::uint32_t i = 0; i < room->count; ++i) {
      const PageNo page{tags[done + i]};
      const auto slot = static_cast<std::uint32_t>(page - taken.block.first());
      std::byte* const to = room->memory + i * kPageSize;
      // What was moved lies where it can be read.
      if (((taken.hidden & ~seized.moved) >> slot & 1) == 0) {
        std::memcpy(to, seized.bytes[slot], kPageSize);
      } else if (memory_.peek(page, to) != Errc::ok) {
        abandoned |= std::uint64_t{1} << i;
        continue;
      }
      sealer_.seal(to, table_->seal(page));
      // Before commit(): it may land inside.
      PageTable::set(taken.words[slot], Entry(PageState::staged));
      sent |= Slots{1} << slot;
    }
    staging_->commit(*room, abandoned);
    done += room->count;
  }
  return sent;
}

}  // namespace comex

// How a block leaves: locked, seized, copied to staging, discarded, unlocked, in this order. Why no write is lost on
// the way: "A write that races with eviction" in docs/design-notes.md.
#include <bit>
#include <cstring>

#include "pager/pager.h"

namespace comex {
namespace {

// The longest that one call of evict() waits for staging to have room. It is called again if need be.
constexpr Millis kRoomPatience{100};
// Blocks in a row of which nothing could be taken: 256 MiB at most are looked through in one call.
constexpr std::uint32_t kMostInVain = 1024;
// Blocks in a row of which the policy spared all that was there: then the next is taken all the same.
constexpr std::uint32_t kMostSpared = 64;

}  // namespace

// The pages of a block that are in the hands of this thread.
struct Pager::Taken {
  BlockNo block;
  Word* words = nullptr;
  Slots locked = 0;      // by this thread; faults on the others go on
  Slots local = 0;       // of those: there, and to go
  Slots clean = 0;       // of those
  Slots hidden = 0;      // of those: not to be read as the program would
  bool remains = false;  // there is, or may soon be, a local page that could not be taken
  bool spared = false;   // ... that the policy spares
};

std::uint64_t Pager::evict(std::uint64_t want) noexcept {
  std::uint64_t taken = 0;
  // Blocks whose pages are all pinned or busy go to the end of the queue: once round is enough. Others leave it, or
  // another thread takes them, and are not seen again.
  std::optional<Victim> first_in_vain;
  std::uint32_t in_vain = 0;
  bool last_in_vain = false;
  std::uint32_t spared = 0;
  bool room = !full();
  while (taken < want && in_vain < kMostInVain) {
    if (room) {
      const Errc waited = staging_->wait_for_room(Deadline(kRoomPatience));
      if (waited == Errc::timeout || (waited != Errc::ok && !refused())) break;
      room = waited == Errc::ok;
      if (!room) full_.store(true, std::memory_order_relaxed);
    }
    const auto victim = victims_.next(last_in_vain);
    if (!victim) break;
    const Taken block = evict_block(*victim, room, spared < kMostSpared);
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
  return taken;
}

// Without room only pages that need not be sent leave.
Pager::Taken Pager::evict_block(Victim victim, bool room, bool mercy) noexcept {
  const BlockNo block = victim.block;
  Taken taken = take(victim, mercy);
  const Slots dirty = taken.local & ~taken.clean;
  Slots stay = 0;  // for want of room, or pinned by the kernel
  Slots moved = 0;
  if (dirty != 0) {
    stay = dirty;
    if (room) {
      const Seized seized = memory_.seize(block, taken.locked, dirty, taken.clean);
      stay = dirty & ~send(taken, seized);
      memory_.release(seized, seized.pages & stay);
      moved = seized.moved & ~stay;
    }
    taken.local &= ~stay;
    taken.remains = taken.remains || stay != 0;
  }
  std::array<PageRun, kBlockPages> runs;
  std::size_t count = 0;
  for_each_run(block, taken.locked & ~stay, taken.local & ~moved, [&](PageRun run) { runs[count++] = run; });
  if (count > 0) (void)memory_.discard(std::span(runs).first(count));
  const auto pages = static_cast<std::uint64_t>(std::popcount(taken.local));
  const Mark mark = pages > 0 ? victims_.leave(victim.queue, pages) : Mark{};
  for_each_slot(taken.locked, [&](std::uint32_t slot) {
    Word& word = taken.words[slot];
    const PageNo page = block.first() + slot;
    const bool leaves = (taken.local >> slot & 1) != 0;
    if (leaves) PageTable::mark(word, mark);
    if (!leaves || (taken.clean >> slot & 1) == 0) return table_->unlock(page, word);
    table_->unlock(page, word, Entry::remote(Entry(word.load(std::memory_order_relaxed)).location()));
  });
  if (taken.remains) admit(block, victim.queue);
  budget_.release(pages);
  PagerStats::add(stats_->evicted, pages);
  PagerStats::add(stats_->dropped, static_cast<std::uint64_t>(std::popcount(taken.local & taken.clean)));
  return taken;
}

// Locks every page of the block that nobody else has, whatever its state, but for local ones that are in another queue:
// see evict_block.
Pager::Taken Pager::take(Victim victim, bool mercy) noexcept {
  const BlockNo block = victim.block;
  Taken taken{.block = block, .words = table_->find(block.first())};
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

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

}  // namespace

// A block in the hands of this thread.
struct Pager::Taken {
  BlockNo block;
  Word* words = nullptr;
  Slots locked = 0;      // by this thread; faults on the others go on
  Slots local = 0;       // of those: there, and to go
  Slots clean = 0;       // of those
  Slots hidden = 0;      // of those: not to be read as the program would
  bool remains = false;  // there is, or may soon be, a local page that could not be taken
};

std::uint64_t Pager::evict(std::uint64_t want) noexcept {
  std::uint64_t taken = 0;
  // Blocks whose pages are all pinned or busy go to the end of the queue: once round is enough. Others leave it, or
  // another thread takes them, and are not seen again.
  constexpr BlockNo kNone{UINT32_MAX};
  BlockNo first_in_vain = kNone;
  std::uint32_t in_vain = 0;
  bool room = !full();
  while (taken < want && in_vain < kMostInVain) {
    if (room) {
      const Errc waited = staging_->wait_for_room(Deadline(kRoomPatience));
      if (waited == Errc::timeout || (waited != Errc::ok && !refused())) break;
      room = waited == Errc::ok;
      if (!room) full_.store(true, std::memory_order_relaxed);
    }
    const auto block = victims_.next();
    if (!block) break;
    const std::uint64_t pages = evict_block(*block, room);
    taken += pages;
    if (pages > 0) {
      first_in_vain = kNone;
      in_vain = 0;
      continue;
    }
    if (first_in_vain == *block) break;
    const bool stays = (table_->find(block->first())->load(std::memory_order_relaxed) & Entry::kQueued) != 0;
    if (stays && first_in_vain == kNone) first_in_vain = *block;
    in_vain += stays;
  }
  return taken;
}

// Without room only pages that need not be sent leave.
std::uint64_t Pager::evict_block(BlockNo block, bool room) noexcept {
  Taken taken = take(block);
  const Slots dirty = taken.local & ~taken.clean;
  Slots stay = 0;  // for want of room, or pinned by the kernel
  Slots moved = 0;
  if (dirty != 0) {
    stay = dirty;
    if (room) {
      const Seized seized = memory_.seize(block, taken.locked, dirty);
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
  for_each_slot(taken.locked, [&](std::uint32_t slot) {
    Word& word = taken.words[slot];
    const PageNo page = block.first() + slot;
    const bool leaves_clean = (taken.local & taken.clean) >> slot & 1;
    if (!leaves_clean) return table_->unlock(page, word);
    table_->unlock(page, word, Entry::remote(Entry(word.load(std::memory_order_relaxed)).location()));
  });
  if (taken.remains) admit(block.first());
  const auto pages = static_cast<std::uint64_t>(std::popcount(taken.local));
  budget_.release(pages);
  PagerStats::add(stats_->evicted, pages);
  PagerStats::add(stats_->dropped, static_cast<std::uint64_t>(std::popcount(taken.local & taken.clean)));
  return pages;
}

// Locks every page of the block that nobody else has, whatever its state: see evict_block.
Pager::Taken Pager::take(BlockNo block) noexcept {
  Taken taken{.block = block, .words = table_->find(block.first())};
  // From here on, who makes a page of this block local queues it again. Who has done so before is seen below.
  taken.words[0].fetch_and(~Entry::kQueued, std::memory_order_seq_cst);
  for (std::uint32_t slot = 0; slot < kBlockPages; ++slot) {
    Word& word = taken.words[slot];
    Entry entry(word.load(std::memory_order_relaxed));
    if (entry.is(PageState::none)) continue;
    // What counts is what it is when it is taken: the program may have hidden it since.
    if (entry.busy() || !table_->try_lock(word, entry.state(), &entry)) {
      taken.remains = true;
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

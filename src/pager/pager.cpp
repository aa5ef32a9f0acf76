#include "pager/pager.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace comex {
namespace {

// A node that is away comes back or is given up by its keeper long before: see Frames::wait_until_decided.
constexpr std::chrono::minutes kMostPatience{5};

// Tries all pages at once, and then the first alone: the others may be in another mapping, or just be changing hands.
template <typename Place>
std::uint32_t all_or_one(PageRun pages, Place&& place) noexcept {
  if (place(pages) == Errc::ok) return static_cast<std::uint32_t>(pages.count);
  return pages.count > 1 && place(PageRun{pages.first, 1}) == Errc::ok ? 1 : 0;
}

// A small budget is not for copies of what nobody may need.
std::uint32_t buffer_pages(const Share& budget) {
  constexpr std::uint64_t kShare = 32;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(ReadBuffer::kPages, budget.limit() / kShare));
}

}  // namespace

Expected<std::unique_ptr<Pager>> Pager::create(const Parts& parts, StagingConfig staging) {
  staging.memory = parts.memory.own(staging.batches * kBatchBytes);
  if (staging.memory == nullptr) return Error{Errc::no_memory, "no memory for staging"};
  auto table = PageTable::create(parts.memory);
  if (!table) return std::move(table).error();
  std::unique_ptr<Pager> pager(new Pager(parts, *std::move(table)));
  auto created =
      Staging::create(parts.frames, staging, [raw = pager.get()](Tag tag, Location where) { raw->landed(tag, where); });
  if (!created) return std::move(created).error();
  pager->staging_ = *std::move(created);
  return pager;
}

Pager::Pager(const Parts& parts, std::unique_ptr<PageTable> table)
    : memory_(parts.memory),
      frames_(parts.frames),
      budget_(parts.budget),
      victims_(parts.victims),
      prefetcher_(parts.prefetcher),
      pins_(parts.pins),
      table_(std::move(table)),
      buffer_(parts.memory, buffer_pages(parts.budget)) {}

// --- faults ---

Served Pager::fault(PageNo page, bool write, Faulter& faulter) noexcept {
  Word* const word = table_->find(page);
  if (word == nullptr) return Served::not_ours;
  const Entry entry = table_->lock(page, *word);
  const auto serve = [&] {
    switch (entry.state()) {
      case PageState::untouched: return touch(page, faulter);
      case PageState::staged: return unstage(page, *word, faulter);
      case PageState::remote: return fetch(page, *word, entry, write, faulter);
      case PageState::resident:
        if (write) return dirty(page, *word, entry);
        table_->unlock(page, *word);
        return Served::already;
      case PageState::none: break;
    }
    table_->unlock(page, *word);
    return Served::not_ours;
  };
  PagerStats& stats = stats_of(faulter);
  const bool timed = faulter.turn++ % PagerStats::kTimed == 0;
  const auto start = timed ? Clock::now() : Clock::time_point();
  const Served served = serve();
  PagerStats::add(stats.faults[static_cast<std::size_t>(served)]);
  if (timed) {
    PagerStats::add(stats.fault_ns,
                    PagerStats::kTimed * static_cast<std::uint64_t>(Nanos(Clock::now() - start).count()));
  }
  return served;
}

Served Pager::touch(PageNo page, Faulter& faulter) noexcept {
  const std::uint32_t along = lock_along(page, Entry(PageState::untouched), faulter);
  const PageRun pages{page, 1 + along};
  const std::uint32_t there = all_or_one(pages, [&](PageRun run) { return memory_.place_zeros(run); });
  budget_.release(pages.count - there);
  table_->for_each(pages, [&](PageNo each, Word& its) {
    const bool placed = each - page < there;
    if (placed) admit(each);
    table_->unlock(each, its, Entry(placed ? PageState::resident : PageState::untouched));
  });
  return there > 0 ? Served::zeros : Served::failed;
}

// A write to a page that is there. If the entry is not clean, somebody else was faster, and lifting the guard again
// does no harm.
Served Pager::dirty(PageNo page, Word& word, Entry entry) noexcept {
  const bool lifted = memory_.unguard(PageRun{page, 1}) == Errc::ok;
  if (!lifted || !entry.clean()) {
    table_->unlock(page, word);
    return lifted ? Served::already : Served::failed;
  }
  table_->unlock(page, word, Entry(PageState::resident));
  release(entry.location());
  return Served::written;
}

Served Pager::unstage(PageNo page, Word& word, Faulter& faulter) noexcept {
  if (faulter.history.expected == page) faulter.history.expected = page + 1;
  charge(1);
  const Served outcome = bring_home(page, word);
  table_->unlock(page, word);
  return outcome;
}

Served Pager::bring_home(PageNo page, Word& word) noexcept {
  Served outcome = Served::already;  // not found: it has landed since, and the next try looks there
  if (const auto pin = staging_->find(page.value)) {
    const bool placed = memory_.place(PageRun{page, 1}, pin->bytes(), false) == Errc::ok;
    outcome = placed ? Served::staged : Served::failed;
  }
  if (outcome != Served::staged) {
    budget_.release(1);
    return outcome;
  }
  admit(page);
  give_up(page, word, Entry(PageState::staged));
  PageTable::set(word, Entry(PageState::resident));
  return Served::staged;
}

// Frames to be read, and where to.
struct Pager::Wanted {
  std::array<Segment, 1 + Faulter::kMostAlong> segments;
  std::size_t count = 0;

  // Frames that follow one another, into memory that does, are one segment.
  void add(FrameNo frame, std::byte* into) noexcept {
    Segment* const last = count > 0 ? &segments[count - 1] : nullptr;
    if (last != nullptr && last->first + last->count == frame && last->local + last->count * kPageSize == into) {
      ++last->count;
    } else {
      segments[count++] = Segment{frame, 1, into};
    }
  }
};

// Neighbours that this thread has locked.
struct Pager::Group {
  static constexpr std::uint32_t kMost = 16;

  std::array<PageNo, kMost> pages;
  std::uint32_t count = 0;
};

Served Pager::fetch(PageNo page, Word& word, Entry entry, bool write, Faulter& faulter) noexcept {
  const std::uint32_t count = 1 + lock_along(page, entry, faulter);
  const NodeId node = entry.location().node;
  PagerStats& stats = stats_of(faulter);
  const auto bounce = [&](std::uint32_t i) { return faulter.bounce + i * kPageSize; };
  std::array<Location, 1 + Faulter::kMostAlong> where;
  Wanted wanted;
  bool buffered = false;
  for (std::uint32_t i = 0; i < count; ++i) {
    where[i] = Entry((&word)[i].load(std::memory_order_relaxed)).location();
    if (!buffer_.take(page + i, bounce(i))) {
      wanted.add(where[i].frame, bounce(i));
    } else {
      prefetcher_.used(faulter.history);
      PagerStats::add(stats.around_used);
      buffered = buffered || i == 0;
    }
  }
  Group group;
  if (count == 1 && !buffered && !frames_.is_near(node)) {
    lock_around(page, entry, faulter, group);
    for (std::uint32_t i = 0; i < group.count; ++i) {
      wanted.add(table_->load(group.pages[i]).location().frame, bounce(1 + i));
    }
  }
  const Errc result = wanted.count > 0 ? read(node, wanted) : Errc::ok;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    if (result == Errc::ok) buffer_.put(group.pages[i], bounce(1 + i));
    table_->unlock(group.pages[i], *table_->find(group.pages[i]));
  }
  // The page itself is dirty at once if it is written to; those that come along are clean in any case.
  const std::uint32_t first_clean = write ? 1 : 0;
  std::uint32_t there = 0;
  const auto place = [&](PageRun run, bool guarded) {
    return memory_.place(run, faulter.bounce + (run.first - page) * kPageSize, guarded);
  };
  if (result == Errc::ok && write && place(PageRun{page, 1}, false) == Errc::ok) there = 1;
  if (result == Errc::ok && there == first_clean && count > there) {
    there += all_or_one(PageRun{page + there, count - there}, [&](PageRun run) { return place(run, true); });
  }
  for (std::uint32_t i = 0; i < there; ++i) admit(page + i);
  budget_.release(count - there);
  for (std::uint32_t i = count; i-- > 0;) {
    const bool here = i < there;
    const bool clean = here && i >= first_clean;
    table_->unlock(page + i, (&word)[i],
                   !here   ? Entry::remote(where[i])
                   : clean ? Entry::clean(where[i])
                           : Entry(PageState::resident));
    if (here && !clean) release(where[i]);
  }
  PagerStats::add(stats.pages_in, there);
  if (group.count > 0) PagerStats::add(stats.pages_around, group.count);
  if (result != Errc::ok) return Served::lost;
  if (there == 0) return Served::failed;
  return buffered ? Served::buffered : Served::remote;
}

void Pager::lock_around(PageNo page, Entry entry, Faulter& faulter, Group& group) noexcept {
  const std::uint64_t size = prefetcher_.around(faulter.history, Group::kMost);
  if (size <= 1) return;
  const PageNo first{page.value - page.value % size};  // in one block, and so in one leaf
  Word* const words = table_->find(first);
  for (std::uint64_t i = 0; i < size && group.count + 1 < size; ++i) {
    const PageNo other = first + i;
    Entry was;
    if (other == page || !table_->try_lock(words[i], PageState::remote, &was)) continue;
    if (was.location().node == entry.location().node && !buffer_.has(other)) {
      group.pages[group.count++] = other;
    } else {
      table_->unlock(other, words[i]);
    }
  }
  prefetcher_.brought(faulter.history, group.count);
}

std::uint32_t Pager::lock_along(PageNo page, Entry entry, Faulter& faulter) noexcept {
  // Entries of one leaf are one array, and a leaf ends where a block does.
  const std::uint32_t room = static_cast<std::uint32_t>(PageTable::kLeafPages - page.value % PageTable::kLeafPages) - 1;
  const std::uint32_t most = std::min(room, Faulter::kMostAlong);
  PagerStats& stats = stats_of(faulter);
  const std::uint32_t before = std::exchange(faulter.history.along, 0);
  if (before > 0 && page == faulter.history.expected) PagerStats::add(stats.along_used, before);
  const std::uint32_t wanted = prefetcher_.along(faulter.history, page, most);
  Word* const words = table_->find(page);
  std::uint32_t count = 0;
  const auto fits = [&](Entry other) {
    return !entry.is(PageState::remote) || other.location().node == entry.location().node;
  };
  while (count < wanted && table_->try_lock(words[count + 1], entry.state())) {
    ++count;
    if (fits(Entry(words[count].load(std::memory_order_relaxed)))) continue;
    table_->unlock(page + count, words[count]);
    --count;
    break;
  }
  // Nothing is evicted for the sake of pages that nobody has asked for.
  if (count > 0 && !budget_.try_charge(1 + count)) {
    for (; count > 0; --count) table_->unlock(page + count, words[count]);
  } else if (count > 0) {
    faulter.history.expected = page + (1 + count);
    faulter.history.along = count;
    PagerStats::add(stats.pages_along, count);
    return count;
  }
  charge(1);
  faulter.history.expected = page + 1;
  return 0;
}

Errc Pager::read(NodeId node, const Wanted& wanted) noexcept {
  const Deadline patience(kMostPatience);
  for (;;) {
    const Errc result = frames_.read(node, std::span(wanted.segments).first(wanted.count));
    if (result != Errc::disconnected && result != Errc::timeout) return result;
    if (const Errc decided = frames_.wait_until_decided(node, patience); decided != Errc::ok) return decided;
  }
}

void Pager::charge(std::uint64_t pages) noexcept {
  if (budget_.try_charge(pages)) return;
  PagerStats::add(stats_->evictions_by_faults);
  // A batch, while we are at it. If there is nothing to take, or nowhere to send it, the program has its page all the
  // same: what is beyond the budget then is for the caller of evict() to deal with.
  if (!full()) evict(std::max<std::uint64_t>(pages, kBlockPages));
  budget_.charge(pages);
}

void Pager::admit(PageNo page) noexcept {
  const BlockNo block = BlockNo::of(page);
  Word* const head = table_->find(block.first());
  if ((head->load(std::memory_order_seq_cst) & Entry::kQueued) != 0) return;
  if ((head->fetch_or(Entry::kQueued, std::memory_order_seq_cst) & Entry::kQueued) == 0) victims_.admit(block);
}

void Pager::give_up(PageNo page, Word& word, Entry entry) noexcept {
  if (entry.is(PageState::staged)) {
    if (staging_->cancel(page.value)) return;
    // It lands this moment, or has: landed() says where.
    while ((entry = Entry(word.load(std::memory_order_acquire))).is(PageState::staged)) sched_yield();
    return release(entry.location());
  }
  if (entry.is(PageState::remote)) buffer_.drop(page);
  if (entry.is(PageState::remote) || entry.clean()) release(entry.location());
}

// The page may be locked by somebody who looks for it in staging, or wants to be rid of it: that is no concern here,
// they look at the state again.
void Pager::landed(Tag tag, Location where) noexcept {
  PageTable::set(*table_->find(PageNo{tag}), Entry::remote(where));
}

// --- the layout of the program's memory ---

Errc Pager::adopt(PageRun pages) noexcept {
  if (const Errc covered = table_->cover(pages); covered != Errc::ok) return covered;
  table_->for_each(pages, [&](PageNo page, Word& word) {
    table_->lock(page, word);
    table_->unlock(page, word, Entry(PageState::untouched));
  });
  return Errc::ok;
}

void Pager::found(PageRun pages) noexcept {
  table_->for_each(pages, [&](PageNo page, Word& word) {
    if (!table_->try_lock(word, PageState::untouched)) return;
    budget_.charge(1);
    admit(page);
    table_->unlock(page, word, Entry(PageState::resident));
  });
}

void Pager::clear(PageRun pages) noexcept {
  while (pages.count > 0) {
    // A block at a time: locked, taken away, unlocked.
    const PageNo block_end{(pages.first.value | (kBlockPages - 1)) + 1};
    const PageRun part{pages.first, std::min(pages.count, block_end - pages.first)};
    bool any = false;
    table_->for_each(part, [&](PageNo page, Word& word) {
      const Entry entry = table_->lock(page, word);
      any = any || entry.is(PageState::resident);
      if (entry.is(PageState::resident)) budget_.release(1);
      give_up(page, word, entry);
      const bool ours = !entry.is(PageState::none);
      PageTable::set(word, Entry(ours ? PageState::untouched : PageState::none));
    });
    if (any) (void)memory_.discard(std::span(&part, 1));
    table_->for_each(part, [&](PageNo page, Word& word) { table_->unlock(page, word); });
    pages = PageRun{part.end(), pages.count - part.count};
  }
}

void Pager::hide(PageRun pages, bool hidden) noexcept {
  table_->for_each(pages, [&](PageNo, Word& word) {
    if (hidden) {
      word.fetch_or(Entry::kHidden, std::memory_order_seq_cst);
    } else {
      word.fetch_and(~Entry::kHidden, std::memory_order_seq_cst);
    }
  });
}

void Pager::hold(PageRun pages) noexcept {
  bool staged = false;
  table_->for_each(pages,
                   [&](PageNo page, Word& word) { staged = table_->lock(page, word).is(PageState::staged) || staged; });
  // A staged page is found by its number, which changes: let it land first, or come back.
  while (staged) {
    const bool nowhere = staging_->drain(Deadline(landing_patience())) == Errc::no_memory;
    staged = false;
    table_->for_each(pages, [&](PageNo page, Word& word) {
      if (!Entry(word.load(std::memory_order_acquire)).is(PageState::staged)) return;
      if (nowhere) budget_.charge(1);
      if (!nowhere || bring_home(page, word) != Served::staged) staged = true;
    });
  }
}

Errc Pager::empty_staging(const Deadline& deadline) noexcept {
  for (;;) {
    const Errc drained = staging_->drain(Deadline::at(std::min(deadline.when(), Clock::now() + landing_patience())));
    if (drained == Errc::ok || deadline.passed()) return drained;
    if (drained != Errc::no_memory) continue;
    table_->for_each(PageTable::kEverything, [&](PageNo page, Word& word) {
      if (!Entry(word.load(std::memory_order_relaxed)).is(PageState::staged)) return;
      if (table_->lock(page, word).is(PageState::staged)) {
        budget_.charge(1);
        (void)bring_home(page, word);
      }
      table_->unlock(page, word);
    });
  }
}

void Pager::progress() noexcept {
  staging_->progress();
  if (full() && staging_->wait_for_room(Deadline(Millis(0))) == Errc::ok) full_.store(false, std::memory_order_relaxed);
}

std::uint64_t Pager::pages_at(NodeId node) const noexcept {
  std::uint64_t count = 0;
  table_->for_each(PageTable::kEverything, [&](PageNo, Word& word) {
    const Entry entry(word.load(std::memory_order_relaxed));
    count += entry.is(PageState::remote) && entry.location().node == node;
  });
  return count;
}

Errc Pager::relocate(PageRun from, PageNo to, PageState left) noexcept {
  if (const Errc covered = table_->cover(PageRun{to, from.count}); covered != Errc::ok) return covered;
  table_->for_each(from, [&](PageNo page, Word& word) {
    const Entry entry(word.load(std::memory_order_acquire));
    const PageNo there = to + (page - from.first);
    Word& its = *table_->find(there);
    (void)table_->lock(there, its);
    if (entry.clean()) release(entry.location());
    if (entry.is(PageState::remote)) buffer_.drop(page);
    const bool here = entry.is(PageState::resident);
    if (here) admit(there);
    if (entry.hidden()) its.fetch_or(Entry::kHidden, std::memory_order_seq_cst);
    table_->unlock(there, its, entry.is(PageState::remote) ? Entry::remote(entry.location()) : Entry(entry.state()));
    if (left == PageState::none) word.fetch_and(~Entry::kHidden, std::memory_order_seq_cst);
    table_->unlock(page, word, Entry(left));
  });
  return Errc::ok;
}

void Pager::let_go(PageRun pages) noexcept {
  table_->for_each(pages, [&](PageNo page, Word& word) { table_->unlock(page, word); });
}

void Pager::let_go_unguarded(PageRun pages) noexcept {
  table_->for_each(pages, [&](PageNo page, Word& word) {
    const Entry entry(word.load(std::memory_order_acquire));
    if (!entry.clean()) return table_->unlock(page, word);
    table_->unlock(page, word, Entry(PageState::resident));
    release(entry.location());
  });
}

void Pager::guard_clean(PageRun pages) noexcept {
  PageRun clean{pages.first, 0};
  const auto guard = [&] {
    // Nobody would notice a write to what is not guarded: it counts as dirty.
    if (clean.count > 0 && memory_.guard(clean) != Errc::ok) let_go_unguarded(clean);
    clean.count = 0;
  };
  table_->for_each(pages, [&](PageNo page, Word& word) {
    const Entry entry(word.load(std::memory_order_relaxed));
    if (!entry.clean()) return guard();
    if (clean.count == 0) clean.first = page;
    ++clean.count;
  });
  guard();
}

void Pager::inherit(PageRun pages) noexcept {
  std::uint64_t local = 0;
  table_->for_each(
      pages, [&](PageNo, Word& word) { local += Entry(word.load(std::memory_order_relaxed)).is(PageState::resident); });
  guard_clean(pages);
  budget_.charge(local);
}

void Pager::forget(PageRun pages) noexcept {
  table_->for_each(pages, [&](PageNo page, Word& word) {
    const Entry entry = table_->lock(page, word);
    if (entry.is(PageState::resident)) budget_.release(1);
    give_up(page, word, entry);
    word.fetch_and(~Entry::kHidden, std::memory_order_seq_cst);
    table_->unlock(page, word, Entry());
  });
}

}  // namespace comex

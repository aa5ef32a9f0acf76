#include "pager/pager.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "pager/transfer_memory.h"

namespace comex {
namespace {

// A small budget is not for copies of what nobody may need.
std::uint32_t buffer_pages(const Share& budget, const Pager::Sizes& sizes) {
  constexpr std::uint64_t kShare = 32;
  if (sizes.buffer > 0) return sizes.buffer;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(ReadBuffer::kPages, budget.whole() / kShare));
}

}  // namespace

std::size_t Pager::transfer_bytes(const Share& budget, const Sizes& sizes, const StagingConfig& staging,
                                  Code code) noexcept {
  return staging.bytes(code) + (std::size_t{buffer_pages(budget, sizes)} << kPageShift);
}

Expected<std::unique_ptr<Pager>> Pager::create(const Parts& parts, StagingConfig staging) {
  staging.memory = transfer_memory(parts.memory, parts.frames, staging.bytes(parts.frames.code()));
  if (staging.memory == nullptr) return Error{Errc::no_memory, "no memory for staging"};
  auto table = PageTable::create(parts.memory, parts.sealer.size());
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
      sealer_(parts.sealer),
      most_along_(parts.sizes.along > 0 ? std::min(parts.sizes.along, Plan::kMost) : Plan::kMost),
      table_(std::move(table)),
      buffer_(parts.memory, parts.frames, buffer_pages(parts.budget, parts.sizes)) {}

// --- faults ---

Served Pager::fault(PageNo page, bool write, Faulter& faulter) noexcept {
  faulter.along = faulter.around = faulter.wrong = 0;
  Word* const word = table_->find(page);
  if (word == nullptr) return Served::not_ours;
  PagerStats& stats = stats_of(faulter);
  faulter.timed = PagerStats::is_timed(faulter.turn++);
  const auto start = faulter.timed ? Clock::now() : Clock::time_point();
  if (Entry(word->load(std::memory_order_relaxed)).busy()) PagerStats::add(stats.waits);
  const Entry entry = table_->lock(page, *word);
  const auto serve = [&] {
    switch (entry.state()) {
      case PageState::untouched: return touch(page, *word, faulter);
      case PageState::staged: return unstage(page, *word, faulter);
      case PageState::remote: return fetch(page, *word, entry, write, faulter);
      case PageState::resident:
        if (write) return dirty(page, *word, entry, faulter);
        table_->unlock(page, *word);
        return Served::already;
      case PageState::none: break;
    }
    table_->unlock(page, *word);
    return Served::not_ours;
  };
  const Served served = serve();
  PagerStats::add(stats.faults[static_cast<std::size_t>(served)]);
  if (faulter.timed) {
    PagerStats::add(stats.fault_ns,
                    PagerStats::kTimed * static_cast<std::uint64_t>(Nanos(Clock::now() - start).count()));
  }
  return served;
}

Served Pager::unstage(PageNo page, Word& word, Faulter& faulter) noexcept {
  const Miss miss{.page = page, .from = Miss::From::staging, .offset = faulter.offset};
  const Plan plan = plan_for(miss, faulter);
  if (plan.used > 0) PagerStats::add(stats_of(faulter).along_used, plan.used);
  charge(1);
  const Served outcome = bring_home(page, word);
  table_->unlock(page, word);
  ask_for_list(miss, plan, faulter);
  return outcome;
}

Errc Pager::place_opened(PageNo page, const std::byte* staged) noexcept {
  const PageRun run{page, 1};
  if (!sealer_.veils()) return memory_.place(run, staged, false);
  std::array<std::byte, kPageSize> opened;
  std::memcpy(opened.data(), staged, kPageSize);
  return sealer_.open(opened.data(), table_->seal(page)) ? memory_.place(run, opened.data(), false) : Errc::io;
}

Served Pager::bring_home(PageNo page, Word& word) noexcept {
  Served outcome = Served::already;  // not found: it has landed since, and the next try looks there
  if (const auto pin = staging_->find(page.value)) {
    const bool placed = place_opened(page, pin->bytes()) == Errc::ok;
    outcome = placed ? Served::staged : Served::failed;
  }
  if (outcome != Served::staged) {
    budget_.release(1);
    return outcome;
  }
  arrive(page, word, PageState::staged);
  give_up(page, word, Entry(PageState::staged));
  PageTable::set(word, Entry(PageState::resident));
  return Served::staged;
}

void Pager::charge(std::uint64_t pages) noexcept {
  if (budget_.try_charge(pages)) return;
  PagerStats::add(stats_->evictions_by_faults);
  // A batch, while we are at it. If there is nothing to take, or nowhere to send it, the program has its page all the
  // same: what is beyond the budget then is for the caller of evict() to deal with.
  if (!full()) evict(std::max<std::uint64_t>(pages, kBlockPages));
  budget_.charge(pages);
}

void Pager::arrive(PageNo page, Word& word, PageState from) noexcept {
  std::optional<Mark> left;
  if (from != PageState::untouched) left = Entry(word.load(std::memory_order_relaxed)).mark();
  const Mark mark = victims_.arrive(page, left);
  PageTable::mark(word, mark);
  admit(BlockNo::of(page), victims_.queue_of(mark));
}

void Pager::admit(BlockNo block, unsigned queue) noexcept {
  Word& head = *table_->find(block.first() + queue);
  if ((head.load(std::memory_order_seq_cst) & Entry::kQueued) != 0) return;
  if ((head.fetch_or(Entry::kQueued, std::memory_order_seq_cst) & Entry::kQueued) == 0) victims_.admit(block, queue);
}

void Pager::unmark(Word& word, Entry entry) noexcept {
  if (entry.is(PageState::resident)) victims_.forget(entry.mark());
  PageTable::mark(word, Mark{});
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
  const Errc made = make_room(pages);
  if (made == Errc::ok) adopt_locked(pages);
  return made;
}

Errc Pager::make_room(PageRun pages) noexcept {
  const Errc covered = table_->cover(pages);
  if (covered == Errc::ok) lock(pages);
  return covered;
}

void Pager::adopt_locked(PageRun pages) noexcept {
  table_->for_each(pages, [&](PageNo page, Word& word) { table_->unlock(page, word, Entry(PageState::untouched)); });
}

void Pager::found(PageRun pages) noexcept {
  table_->for_each(pages, [&](PageNo page, Word& word) {
    if (!table_->try_lock(word, PageState::untouched)) return;
    budget_.charge(1);
    arrive(page, word, PageState::untouched);
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
      unmark(word, entry);
      const bool ours = !entry.is(PageState::none);
      PageTable::set(word, Entry(ours ? PageState::untouched : PageState::none));
    });
    if (any) (void)memory_.discard(std::span(&part, 1));
    table_->for_each(part, [&](PageNo page, Word& word) { table_->unlock(page, word); });
    pages = PageRun{part.end(), pages.count - part.count};
  }
}

void Pager::lift_fences() noexcept {
  const auto fenced = [](Entry entry) { return entry.guarded() && !entry.clean(); };
  table_->for_each(PageTable::kEverything, [&](PageNo page, Word& word) {
    if (!fenced(Entry(word.load(std::memory_order_relaxed)))) return;
    const bool lift = fenced(table_->lock(page, word)) && memory_.unguard(PageRun{page, 1}) == Errc::ok;
    if (!lift) return table_->unlock(page, word);
    table_->unlock(page, word, Entry(PageState::resident));
  });
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

void Pager::forget_what_waits() noexcept {
  buffer_.forget();
}

Errc Pager::empty_staging(const Deadline& deadline) noexcept {
  buffer_.settle();
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
  buffer_.progress();
  if (full() && staging_->wait_for_room(Deadline(Millis(0))) == Errc::ok) full_.store(false, std::memory_order_relaxed);
}

std::uint64_t Pager::pages_at(NodeId node) const noexcept {
  std::uint64_t count = 0;
  table_->for_each(PageTable::kEverything, [&](PageNo, Word& word) {
    const Entry entry(word.load(std::memory_order_relaxed));
    count += entry.is(PageState::remote) && frames_.place_of(entry.location()).node == node;
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
    PageTable::mark(its, entry.mark());
    PageTable::mark(word, Mark{});
    if (entry.is(PageState::resident)) admit(BlockNo::of(there), victims_.queue_of(entry.mark()));
    if (entry.hidden()) its.fetch_or(Entry::kHidden, std::memory_order_seq_cst);
    if (entry.is(PageState::remote)) std::memcpy(table_->seal(there), table_->seal(page), sealer_.size());
    // Some kernels let guards move along.
    const Entry moved = entry.is(PageState::remote) ? Entry::remote(entry.location())
                        : entry.guarded()           ? Entry::fenced()
                                                    : Entry(entry.state());
    table_->unlock(there, its, moved);
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
  table_->for_each(pages, [&](PageNo page, Word& word) { drop(page, word, table_->lock(page, word)); });
}

void Pager::lock(PageRun pages) noexcept {
  table_->for_each(pages, [&](PageNo page, Word& word) { (void)table_->lock(page, word); });
}

void Pager::forget_locked(PageRun pages) noexcept {
  table_->for_each(pages,
                   [&](PageNo page, Word& word) { drop(page, word, Entry(word.load(std::memory_order_acquire))); });
}

void Pager::drop(PageNo page, Word& word, Entry entry) noexcept {
  if (entry.is(PageState::resident)) budget_.release(1);
  give_up(page, word, entry);
  unmark(word, entry);
  word.fetch_and(~Entry::kHidden, std::memory_order_seq_cst);
  table_->unlock(page, word, Entry());
}

}  // namespace comex

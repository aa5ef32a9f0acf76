// How pages come: zeros at the first touch, or from frames; and with them those that the prefetcher asks for. What
// comes is one group: locked, read, opened, placed, unlocked, in this order. What is to wait in the read buffer is only
// asked for, when all that is done.
#include <algorithm>
#include <bit>
#include <utility>

#include "pager/pager.h"

namespace comex {
namespace {

// A node that is away comes back or is given up by its keeper long before: see Frames::wait_until_decided.
constexpr std::chrono::minutes kMostPatience{5};

}  // namespace

// Pages that this thread has locked: the one that was faulted on, and then those that come along, by ascending address.
struct Pager::Group {
  static constexpr std::uint32_t kMost = 1 + Faulter::kMostAlong;
  static_assert(kMost <= kBlockPages && kMost <= wire::kMaxSegments);

  Group(const Miss& what, Word& word, Location at) noexcept : miss(what), words{&word}, places{at} {
    pages[0] = what.page;
  }
  void add(PageNo page, Word& word, Location place) noexcept {
    pages[count] = page;
    places[count] = place;
    words[count++] = &word;
  }
  [[nodiscard]] Line line() const noexcept { return {miss.page, miss.offset, plan.step}; }
  [[nodiscard]] Location home(std::uint32_t i) const noexcept {
    return Entry(words[i]->load(std::memory_order_relaxed)).location();
  }
  // Calls put(PageRun, std::uint32_t first) for each run of neighbours of one kind, all or nothing. `kinds`: of two, by
  // page. Returns which pages are there: none if the page itself is refused.
  template <typename Put>
  [[nodiscard]] Slots place(Slots kinds, Put&& put) const noexcept {
    Slots there = 0;
    for (std::uint32_t first = 0; first < count;) {
      const auto goes_on = [&](std::uint32_t i) {
        return pages[i] == pages[first] + (i - first) && (kinds >> i & 1) == (kinds >> first & 1);
      };
      std::uint32_t run = 1;
      while (first + run < count && goes_on(first + run)) ++run;
      const std::uint32_t end = first + run;
      // A run that lies in several mappings is refused, though its parts may not be.
      while (run > 0) {
        if (put(PageRun{pages[first], run}, first) != Errc::ok) {
          run /= 2;
          continue;
        }
        there |= slots_below(run) << first;
        first += run;
        run = end - first;
      }
      if (there == 0 && first == 0) return 0;
      first = end;
    }
    return there;
  }

  Miss miss;
  Plan plan;
  bool to_buffer = false;  // the plan is for the read buffer
  std::uint32_t count = 1;
  std::array<PageNo, kMost> pages;
  std::array<Word*, kMost> words;
  std::array<Location, kMost> places;  // where they are read from, if they are
};

Served Pager::touch(PageNo page, Word& word, Faulter& faulter) noexcept {
  Group group(Miss{.page = page, .from = Miss::From::zeros, .offset = faulter.offset}, word, {});
  gather(group, Entry(PageState::untouched), faulter);
  const Slots there = group.place(0, [&](PageRun run, std::uint32_t) { return memory_.place_zeros(run); });
  tell_mapped(group, there, 0, faulter);
  budget_.release(group.count - static_cast<std::uint32_t>(std::popcount(there)));
  for (std::uint32_t i = 0; i < group.count; ++i) {
    const bool here = (there >> i & 1) != 0;
    if (here) arrive(group.pages[i], *group.words[i], PageState::untouched);
    table_->unlock(group.pages[i], *group.words[i], Entry(here ? PageState::resident : PageState::untouched));
  }
  return there != 0 ? Served::zeros : Served::failed;
}

Served Pager::fetch(PageNo page, Word& word, Entry entry, bool write, Faulter& faulter) noexcept {
  Reading reading(frames_);
  const Location home = entry.location();
  const Location source = faulter.timed ? frames_.place_to_measure(home) : frames_.place_of(home);
  const NodeId node = source.node;
  Nanos lead{};
  const bool buffered = buffer_.take(page, faulter.bounce, faulter.timed ? &lead : nullptr);
  const bool far = !frames_.is_near(node);
  const std::uint32_t one_in = costs_[far].one_in(far ? 8 : 3);
  const Miss::From from = buffered ? Miss::From::buffer : Miss::From::node;
  Group group(Miss{page, from, far, write, one_in, faulter.offset}, word, source);
  gather(group, entry, faulter);
  const auto bounce = [&](std::uint32_t i) { return faulter.bounce + i * kPageSize; };
  Wanted wanted;
  std::uint32_t from_buffer = 0;  // of those that come along
  if (!buffered) wanted.add(group.places[0], bounce(0));
  for (std::uint32_t i = 1; i < group.count; ++i) {
    if (buffer_.take(group.pages[i], bounce(i))) {
      ++from_buffer;
    } else {
      wanted.add(group.places[i], bounce(i));
    }
  }
  Errc result = wanted.pages() > 0 ? read(wanted, faulter) : Errc::ok;
  reading.end();
  if (result != Errc::ok) {
    // The page itself is what counts, and it may be elsewhere.
    budget_.release(group.count - 1);
    unlock_others(group);
    group.plan.mapped = group.plan.written = group.to_buffer = false;
    from_buffer = 0;
    result = buffered ? Errc::ok : read_anywhere(group.home(0), bounce(0));
  }
  const Opened opened = result == Errc::ok ? open(group, faulter) : Opened{};
  if ((opened.wrong & 1) != 0) result = Errc::io;
  const Slots dirty = take_for_dirty(group, faulter);
  const auto place = [&](PageRun run, std::uint32_t first) {
    if ((opened.wrong >> first & slots_below(static_cast<std::uint32_t>(run.count))) != 0) return Errc::io;
    return memory_.place(run, bounce(first), (dirty >> first & 1) == 0);
  };
  const Slots there = result == Errc::ok ? group.place(dirty, place) : 0;
  tell_mapped(group, there, from_buffer, faulter);
  if (guesses_[far].counts(faulter.timed)) {
    guesses_[far].placed(static_cast<std::uint32_t>(std::popcount(there & ~dirty)));
  }
  const auto placed = static_cast<std::uint32_t>(std::popcount(there));
  budget_.release(group.count - placed);
  for (std::uint32_t i = 0; i < group.count; ++i) {
    const PageNo each = group.pages[i];
    const Location its_home = group.home(i);
    if ((there >> i & 1) == 0) {
      table_->unlock(each, *group.words[i]);
      continue;
    }
    const bool clean = (dirty >> i & 1) == 0;
    arrive(each, *group.words[i], PageState::remote);
    if (clean && ((opened.mended >> i & 1) != 0 || frames_.is_worn(its_home))) {
      renew(each, *group.words[i], its_home);
      continue;
    }
    table_->unlock(each, *group.words[i], clean ? Entry::clean(its_home) : Entry(PageState::resident));
    if (!clean) release(its_home);
  }
  if (result == Errc::ok) read_ahead(group, node, faulter);
  if (result == Errc::ok) ask_for_list(group.miss, group.plan, faulter);
  PagerStats& stats = stats_of(faulter);
  PagerStats::add(stats.pages_in, placed);
  if (buffered) PagerStats::add(stats.around_used);
  if (buffered && faulter.timed) stats.add_lead(lead);
  // Now they count as brought along.
  if (from_buffer > 0) stats.pages_around.fetch_sub(from_buffer, std::memory_order_relaxed);
  if (result != Errc::ok) return Served::lost;
  if (there == 0) return Served::failed;
  return buffered ? Served::buffered : Served::remote;
}

std::uint64_t Pager::price_of_leaving(bool far) const noexcept {
  constexpr std::uint64_t kLeaving = 2'000;  // ns: to seize a page and to copy it
  return kLeaving + frames_.copies() * costs_[far].page_ns();
}

// The page itself if it is written to, and all of them if the stream's pages are. Another one if it was written to when
// it was last here clean, or if enough are; but now and then it is placed clean, to see whether that is still so.
Slots Pager::take_for_dirty(Group& group, const Faulter& faulter) noexcept {
  if (group.plan.written) return slots_below(group.count);
  const bool far = group.miss.far;
  // A full pool takes nothing: then it is good to have pages that can leave all the same.
  const bool likely = group.count == 1 && !full() && guesses_[far].likely(price_of_leaving(far));
  // One time in 32, and not at the same pages each time: what a program does is regular, too.
  const auto look = [&](PageNo page) {
    const auto mixed =
        (faulter.turn * 0x9e3779b1U ^ static_cast<std::uint32_t>(page.value) * 0x85ebca6bU) * 0xc2b2ae35U;
    return mixed >> 27 == 0;
  };
  Slots dirty = group.miss.write ? 1 : 0;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    const bool revised = Entry(group.words[i]->load(std::memory_order_relaxed)).revised();
    if (!revised && !likely) continue;
    if (!look(group.pages[i])) {
      dirty |= Slots{1} << i;
    } else if (revised) {
      PageTable::revise(*group.words[i], false);
    }
  }
  return dirty;
}

Plan Pager::plan_for(const Miss& miss, Faulter& faulter) noexcept {
  Plan plan;
  with_history(faulter, [&](History& history) {
    plan = prefetcher_.plan(history, miss);
    if (plan.after == 0 || !plan.mapped || plan.stream >= history.streams.size()) return;
    plan.written = history.streams[plan.stream].writes.next();
  });
  if (plan.known) PagerStats::add(stats_of(faulter).known);
  if (plan.unknown) PagerStats::add(stats_of(faulter).unknown);
  return plan;
}

void Pager::gather(Group& group, Entry entry, Faulter& faulter) noexcept {
  Plan& plan = group.plan;
  plan = plan_for(group.miss, faulter);
  PagerStats& stats = stats_of(faulter);
  if (plan.used > 0) PagerStats::add(stats.along_used, plan.used);
  const bool wanted = plan.after + plan.before > 0;
  group.to_buffer = wanted && !plan.mapped && entry.is(PageState::remote);
  if (wanted && plan.mapped) {
    lock_others(group, entry);
    // Nothing is evicted for the sake of pages that nobody has asked for.
    if (group.count > 1 && budget_.try_charge(group.count)) return PagerStats::add(stats.pages_along, group.count - 1);
    // Where a read is dear, they can wait in the read buffer.
    group.to_buffer = group.count > 1 && group.miss.far;
    unlock_others(group);
  }
  plan.mapped = plan.written = false;
  charge(1);  // may evict, so with no other page locked
}

// Calls f(PageNo) for each page of the plan, by ascending address, from so many steps on to so many.
template <typename F>
void Pager::for_each_step(const Group& group, std::int64_t from, std::int64_t to, F&& f) noexcept {
  const Line line = group.line();
  const bool up = line.step.pages > 0;
  for (std::int64_t i = up ? from : to; up ? i <= to : i >= from; i += up ? 1 : -1) {
    if (i != 0) f(line.at(i));
  }
}

void Pager::lock_others(Group& group, Entry entry) noexcept {
  const auto after = static_cast<std::int64_t>(std::min(group.plan.after, most_along_));
  const std::int64_t before = std::min<std::int64_t>(group.plan.before, most_along_ - after);
  const NodeId node = group.places[0].node;
  NodeSet nodes;
  nodes.insert(node);
  for_each_step(group, -before, after, [&](PageNo other) {
    Word* const word = table_->find(other);
    Entry was;
    if (word == nullptr || !table_->try_lock(*word, entry.state(), &was)) return;
    // What the program may not touch would stay: eviction cannot read it.
    const bool remote = entry.is(PageState::remote);
    const Location place = remote ? frames_.place_of(was.location()) : Location{};
    if (!was.hidden() && (!remote || (goes_along(place, node) && nodes.insert(place.node)))) {
      group.add(other, *word, place);
    } else {
      table_->unlock(other, *word);
    }
  });
}

// Asks for what is to wait in the read buffer: what was planned for it, or what comes after that which is mapped.
// REQUIRES: nothing of the group is locked any more.
void Pager::read_ahead(const Group& group, NodeId node, Faulter& faulter) noexcept {
  const Plan& plan = group.plan;
  const bool beyond = !group.to_buffer && plan.mapped && plan.ahead > 0;
  if (!beyond && !group.to_buffer) return;
  auto coming = buffer_.prepare();
  if (!coming) return;
  std::array<std::pair<PageNo, Word*>, ReadBuffer::kGroupPages> locked;
  const std::int64_t after = plan.after;
  const std::int64_t ahead = std::min(plan.ahead, most_along_ + 1);
  for_each_step(group, beyond ? after + 1 : -std::int64_t{plan.before}, beyond ? after + ahead : after,
                [&](PageNo other) {
                  Word* const word = coming->full() ? nullptr : table_->find(other);
                  Entry was;
                  if (word == nullptr || !table_->try_lock(*word, PageState::remote, &was)) return;
                  const Location place = frames_.place_of(was.location());
                  const bool wanted = goes_along(place, node) && can_be_asked_for(place);
                  const bool free = wanted && !was.hidden() && !buffer_.has(other);
                  if (!free || !coming->add(other, place)) return table_->unlock(other, *word);
                  locked[coming->count() - 1] = {other, word};
                });
  const std::uint32_t count = coming->count();
  coming->begin();
  for (std::uint32_t i = 0; i < count; ++i) table_->unlock(locked[i].first, *locked[i].second);
  if (count == 0) return;
  PagerStats::add(stats_of(faulter).pages_around, count);
  faulter.around = count;
  if (group.to_buffer) tell(group, Brought{.pages = count, .mapped = false}, faulter);
}

void Pager::unlock_others(Group& group) noexcept {
  for (; group.count > 1; --group.count) table_->unlock(group.pages[group.count - 1], *group.words[group.count - 1]);
}

void Pager::tell(const Group& group, const Brought& brought, Faulter& faulter) noexcept {
  with_history(faulter, [&](History& history) { prefetcher_.brought(history, group.miss, group.plan, brought); });
}

void Pager::tell_mapped(const Group& group, Slots there, std::uint32_t from_buffer, Faulter& faulter) noexcept {
  if (group.count == 1) return;
  const auto placed = static_cast<std::uint32_t>(std::popcount(there & ~Slots{1}));
  faulter.along = placed;
  tell(group, Brought{.pages = placed, .from_buffer = from_buffer, .covered = covered(group, there)}, faulter);
}

// Up to the first page that the program will fault on if it goes on along the plan. What others have locked is taken
// to be here soon.
std::uint32_t Pager::covered(const Group& group, Slots there) const noexcept {
  const auto refused = [&](PageNo page) {
    for (std::uint32_t i = 1; i < group.count; ++i) {
      if (group.pages[i] == page) return (there >> i & 1) == 0;
    }
    return false;
  };
  const bool all = there == slots_below(group.count);
  const Line line = group.line();
  std::uint32_t steps = 0;
  for (; steps < 2 * Plan::kMost; ++steps) {
    const PageNo page = line.at(std::int64_t{steps} + 1);
    const Entry entry = table_->load(page);
    if (!entry.busy() && !entry.is(PageState::resident)) break;
    if (!all && refused(page)) break;
  }
  return steps;
}

Pager::Opened Pager::open(const Group& group, Faulter& faulter) noexcept {
  Opened opened;
  // The page itself last: if it is wrong, that is what is told of.
  for (std::uint32_t i = group.count; i-- > 0;) {
    std::byte* const bytes = faulter.bounce + i * kPageSize;
    if (sealer_.open(bytes, table_->seal(group.pages[i]))) continue;
    const bool mended = mend(group.pages[i], group.home(i), bytes, faulter);
    (mended ? opened.mended : opened.wrong) |= Slots{1} << i;
  }
  return opened;
}

bool Pager::mend(PageNo page, Location home, std::byte* into, Faulter& faulter) noexcept {
  PagerStats& stats = stats_of(faulter);
  PagerStats::add(stats.wrong);
  ++faulter.wrong;
  faulter.wrong_at = frames_.place_of(home);
  const auto is_right = [&] {
    if (!sealer_.open(into, table_->seal(page))) return false;
    PagerStats::add(stats.mended);
    return true;
  };
  Reading reading(frames_);
  const Places places = frames_.readable_places(home);
  bool seen = false;
  for (std::uint32_t copy = 0; copy < places.count; ++copy) {
    Wanted again;
    again.add(places.at[copy], into);
    if (read(again, faulter) != Errc::ok) continue;
    seen = true;
    if (is_right()) return true;
    faulter.wrong_at = places.at[copy];
  }
  reading.end();
  // None could be read just now: one may be back in time.
  return !seen && read_anywhere(home, into) == Errc::ok && is_right();
}

void Pager::renew(PageNo page, Word& word, Location home) noexcept {
  if (memory_.unguard(PageRun{page, 1}) != Errc::ok) return table_->unlock(page, word, Entry::clean(home));
  table_->unlock(page, word, Entry(PageState::resident));
  release(home);
}

Errc Pager::read(Wanted& wanted, const Faulter& faulter) noexcept {
  const auto start = faulter.timed ? Clock::now() : Clock::time_point();
  wanted.begin(frames_, Priority::urgent);
  const Errc result = wanted.wait(frames_);
  if (result == Errc::ok && faulter.timed) {
    const Nanos took = Clock::now() - start;
    const NodeId node = wanted.nodes()[0];
    if (wanted.nodes().count() == 1) frames_.saw_read(node, wanted.pages(), took);
    costs_[!frames_.is_near(node)].note(wanted.pages(), static_cast<std::uint64_t>(took.count()));
  }
  return result;
}

// Whether it can be read along with a page of that node. Nobody waits for a node that may not answer for the sake of a
// page that was not asked for.
bool Pager::goes_along(Location place, NodeId node) const noexcept {
  return place.node == node || (place.node != kNowhere && frames_.spreads());
}

// After a read has failed: from wherever the page can be had, for as long as that may be.
Errc Pager::read_anywhere(Location home, std::byte* into) noexcept {
  const Deadline patience(kMostPatience);
  for (;;) {
    const Errc decided = frames_.wait_until_readable(home, patience);
    if (decided != Errc::ok) return decided;
    const Reading reading(frames_);
    const Location place = frames_.place_of(home);
    const Segment segment{place.frame, 1, into};
    const Errc result = frames_.read(place.node, {&segment, 1});
    const bool elsewhere = result == Errc::disconnected || result == Errc::timeout || result == Errc::fenced;
    if (!elsewhere || patience.passed()) return result;
  }
}

}  // namespace comex

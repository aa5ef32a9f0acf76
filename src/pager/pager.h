// The pager: gives a program its pages back when it touches them, and takes them away when there are too many.
//
//                              faults: the thread that touched, or one for it
//   program's memory  <----------------------------------------------------------  staging, frames
//        (Memory)     ---------------------------------------------------------->     (Frames)
//                              eviction: a thread of its own; faults when it is behind
//
// The life of a page is drawn in pager/entry.h. Whoever changes an entry has it to itself (busy), from before the first
// change to the program's memory until after the last; so for each page the story is a sequence. See "A write that
// races with eviction" in docs/design-notes.md.
//
// Thread safety: all functions from any thread. No lock is held across I/O but the busy bits of the pages that are
// moved: who waits for one of those waits for that page.
// Fault path: fault() and evict() and what they call; nothing is allocated.
//
// Invariants:
//  1. A page's bytes are in exactly one place that counts: its entry says which.
//  2. A resident page that is not clean is sent to staging, whole, after it was guarded and before it is discarded.
//  3. What is in the read buffer is a copy of a page that is remote.
//  4. Frames belong to one entry each; the pager gives a frame back when its entry stops naming it.
//  5. A page that comes from a frame is placed only if it is what its seal says; staging has what was sealed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "pager/budget.h"
#include "pager/evict/victims.h"
#include "pager/lifts.h"
#include "pager/odds.h"
#include "pager/page_table.h"
#include "pager/pager_stats.h"
#include "pager/prefetch/prefetcher.h"
#include "pager/read_buffer.h"
#include "pager/read_cost.h"
#include "pager/seal/none.h"
#include "pager/write_guess.h"
#include "pool/frames.h"
#include "pool/staging.h"

namespace comex {

// How a fault was served.
enum class Served : std::uint8_t {
  not_ours,  // no page of the pager's: somebody else's fault
  already,   // another thread was faster
  zeros,     // first touch
  written,  // a guard is lifted: a clean page is now dirty, or one that was guarded along with others can be written to
  staged,
  buffered,  // from the read buffer
  remote,
  lost,    // the only copy is gone, or is not what was sent: the program must not go on
  failed,  // the program's memory could not be changed
};

// What a thread brings along to resolve faults.
struct Faulter {
  static constexpr std::uint32_t kMostAlong = Plan::kMost;
  static constexpr std::size_t kBounceBytes = (1 + kMostAlong) * kPageSize;

  std::byte* bounce = nullptr;  // kBounceBytes, of pages that never fault themselves
  History history;
  PagerStats* stats = nullptr;      // where it counts; none: where the pager does
  std::uint32_t turn = 0;           // of its faults, for timing some of them
  bool timed = false;               // this one is
  std::uint32_t offset = 0;         // where in its page it is, if that is known
  SharedHistory* shared = nullptr;  // used instead of its own, by who serves the faults of others
  std::uint32_t along = 0;          // pages that came with the last fault,
  std::uint32_t around = 0;         // ... and that were asked for, to wait in the read buffer
  std::uint32_t wrong = 0;          // of those that came, itself among them, so many were not what was sent
  Location wrong_at{};              // ... the last of them
};

// Calls f(History&), unless another thread has it.
template <typename F>
void with_history(Faulter& faulter, F&& f) noexcept {
  if (faulter.shared == nullptr) {
    f(faulter.history);
  } else {
    faulter.shared->with(f);
  }
}

// Pages that must stay where they are for a while.
class Pins {
 public:
  virtual ~Pins() = default;
  // Bit i: the i-th page of the block is pinned. seq_cst, against the busy bits: see PageTable::try_lock.
  [[nodiscard]] virtual std::uint64_t pinned(BlockNo block) const noexcept = 0;
};

class Pager {
 public:
  // 0: as usual.
  struct Sizes {
    std::uint32_t along = 0;   // pages that come along with one at most
    std::uint32_t buffer = 0;  // pages in the read buffer
  };
  struct Parts {
    Memory& memory;
    Frames& frames;
    Share& budget;
    Victims& victims;
    const Prefetcher& prefetcher;
    const Pins& pins;
    Sizes sizes{};
    const Sealer& sealer = kNoSeal;
  };

  // How much it will ask for of the frames' transfer_memory().
  [[nodiscard]] static std::size_t transfer_bytes(const Share& budget, const Sizes& sizes, const StagingConfig& staging,
                                                  Code code) noexcept;
  static Expected<std::unique_ptr<Pager>> create(const Parts& parts, StagingConfig staging);

  // --- faults ---
  Served fault(PageNo page, bool write, Faulter& faulter) noexcept;
  // Takes at least `want` pages away if it can. Returns how many. What it sends is on its way when this returns.
  std::uint64_t evict(std::uint64_t want) noexcept;
  // To be called now and then by the thread that evicts: notices what has arrived.
  void progress() noexcept;
  // Writes some pages elsewhere whose frames are worn (Frames::is_worn). By one thread at a time.
  void tidy() noexcept;
  // No node takes pages: what is local stays so, beyond the budget too, but for pages that need not be sent.
  [[nodiscard]] bool full() const noexcept { return full_.load(std::memory_order_relaxed); }
  // Lets everything that is staged land, or brings it back if no node takes it. As Staging::drain(). No transfer is
  // under way after that, if nobody else is inside.
  Errc empty_staging(const Deadline& deadline) noexcept;

  // --- the layout of the program's memory ---
  // The pages are the program's, and faults on them ours. REQUIRES: none of them is yet.
  Errc adopt(PageRun pages) noexcept;
  // The same in two steps: whoever needs a page waits until they are adopted, or forgotten.
  Errc make_room(PageRun pages) noexcept;
  void adopt_locked(PageRun pages) noexcept;
  // Of adopted ones: these are there already. They count as dirty.
  void found(PageRun pages) noexcept;
  // All zeros from now on, and nothing is local. The caller has discarded, or discards before anybody can touch them.
  void clear(PageRun pages) noexcept;
  // Of adopted pages, where userfaultfd was opened anew: guards what is clean again. REQUIRES: nobody else is inside.
  void guard_clean(PageRun pages) noexcept;
  // In a process that has just been forked, of adopted pages: counts what is local, and guards what is clean again.
  // REQUIRES: nothing is staged, nobody else is inside.
  void inherit(PageRun pages) noexcept;
  // In a process that has just been forked: what was read ahead is not here any more. REQUIRES: empty_staging() before
  // the fork, nobody else is inside.
  void forget_what_waits() noexcept;
  // Not the program's any more.
  void forget(PageRun pages) noexcept;
  // Around a call that may take pages away from the program, or fail: lock() takes the entries, and then the pages are
  // forgotten, or let_go() leaves everything as it was.
  void lock(PageRun pages) noexcept;
  void forget_locked(PageRun pages) noexcept;
  // Nothing that is not clean is guarded any more, of what eviction has guarded along before.
  void lift_fences() noexcept;
  // The program may not read them now, or may again.
  void hide(PageRun pages, bool hidden) noexcept;
  // Around a move of pages to other addresses: hold() takes the entries and sees to it that none is staged, then the
  // caller moves what is there, and then either relocate() gives the new addresses what the old had, all of it dirty,
  // and the old ones `left`, or let_go() leaves everything as it was; let_go_unguarded() if the caller has lifted all
  // guards.
  void hold(PageRun pages) noexcept;
  Errc relocate(PageRun from, PageNo to, PageState left) noexcept;
  void let_go(PageRun pages) noexcept;
  void let_go_unguarded(PageRun pages) noexcept;

  [[nodiscard]] const PageTable& table() const noexcept { return *table_; }
  // Of a node that is lost: how many pages it had the only copy of. Slow.
  [[nodiscard]] std::uint64_t pages_at(NodeId node) const noexcept;
  [[nodiscard]] const PagerStats& stats() const noexcept { return *stats_; }
  // Counts there from now on.
  void count_in(PagerStats& stats) noexcept { stats_ = &stats; }
  [[nodiscard]] Staging& staging() noexcept { return *staging_; }

 private:
  using Word = PageTable::Word;

  explicit Pager(const Parts& parts, std::unique_ptr<PageTable> table);

  // Each REQUIRES that the entry is locked by this thread, and unlocks it.
  Served touch(PageNo page, Word& word, Faulter& faulter) noexcept;
  Served dirty(PageNo page, Word& word, Entry entry, Faulter& faulter) noexcept;
  Served unstage(PageNo page, Word& word, Faulter& faulter) noexcept;
  Served fetch(PageNo page, Word& word, Entry entry, bool write, Faulter& faulter) noexcept;
  void drop(PageNo page, Word& word, Entry entry) noexcept;  // the page is not the program's any more

  // For one try of several to let staging drain. Where nothing is taken there is nothing to wait for.
  [[nodiscard]] Millis landing_patience() const noexcept { return full() ? Millis(0) : Millis(1000); }
  // Whether frames are not only late: there are none.
  [[nodiscard]] bool refused() const noexcept {
    const Errc answer = frames_.wait_for_frames(1, Deadline(Millis(0)));
    return answer == Errc::no_memory || answer == Errc::disconnected;
  }
  // Puts a page of staging where it was.
  Errc place_opened(PageNo page, const std::byte* staged) noexcept;
  // REQUIRES: locked, and counted as local if it is. Leaves it locked.
  Served bring_home(PageNo page, Word& word) noexcept;
  [[nodiscard]] PagerStats& stats_of(Faulter& faulter) const noexcept {
    return faulter.stats != nullptr ? *faulter.stats : *stats_;
  }
  // --- what comes along: pager_fetch.cpp ---
  struct Group;
  Plan plan_for(const Miss& miss, Faulter& faulter) noexcept;
  // Makes a group of the page, which is locked, and of those that come along, and counts what is about to be local.
  void gather(Group& group, Entry entry, Faulter& faulter) noexcept;
  void lock_others(Group& group, Entry entry) noexcept;
  void unlock_others(Group& group) noexcept;
  template <typename F>
  static void for_each_step(const Group& group, std::int64_t from, std::int64_t to, F&& f) noexcept;
  void read_ahead(const Group& group, NodeId node, Faulter& faulter) noexcept;
  // Asks for what is on the list of the plan: pager_list.cpp. REQUIRES: this thread has nothing locked.
  void ask_for_list(const Miss& miss, const Plan& plan, Faulter& faulter) noexcept;
  struct Listed;
  std::optional<std::uint32_t> ask_for_some(Listed& listed) noexcept;
  // Says to the prefetcher what came of its plan.
  void tell(const Group& group, const Brought& brought, Faulter& faulter) noexcept;
  // `there`: of the group, what is in the program's memory. REQUIRES: nothing of the group is unlocked yet.
  void tell_mapped(const Group& group, Slots there, std::uint32_t from_buffer, Faulter& faulter) noexcept;
  [[nodiscard]] std::uint32_t covered(const Group& group, Slots there) const noexcept;
  using Wanted = Reads<1 + Faulter::kMostAlong>;
  Errc read(Wanted& wanted, const Faulter& faulter) noexcept;
  [[nodiscard]] bool goes_along(Location place, NodeId node) const noexcept;
  // Whether it can be asked for ahead: nobody waits for what nobody wants yet.
  [[nodiscard]] bool can_be_asked_for(Location place) const noexcept {
    return place.node != kNowhere && !frames_.keeps_waiting(place.node);
  }
  // Of a group that has been read.
  struct Opened {
    Slots wrong = 0;   // not what was sent, and no copy is
    Slots mended = 0;  // ... but another copy is, or another try was
  };
  Opened open(const Group& group, Faulter& faulter) noexcept;
  // Which pages of it are placed as if they had been written to already: they cost no other fault when they are.
  Slots take_for_dirty(Group& group, const Faulter& faulter) noexcept;
  // A page that came wrong, once more, from each place that has it. False if none is right.
  bool mend(PageNo page, Location home, std::byte* into, Faulter& faulter) noexcept;
  // It is there as if it had been written: its frame, which may have a wrong copy, or be worn, is given up. REQUIRES:
  // locked; unlocks.
  void renew(PageNo page, Word& word, Location home) noexcept;
  Errc read_anywhere(Location home, std::byte* into) noexcept;

  // Makes room for pages that are about to be local, and counts them.
  void charge(std::uint64_t pages) noexcept;
  // The page is, or is about to be, local again, or for the first time. REQUIRES: locked, with the mark that it has
  // had.
  void arrive(PageNo page, Word& word, PageState from) noexcept;
  void admit(BlockNo block, unsigned queue) noexcept;
  // What eviction knows of the page is no more. REQUIRES: locked.
  void unmark(Word& word, Entry entry) noexcept;
  void release(Location where) noexcept { frames_.give_back(Run{where.node, where.frame, 1}); }
  // What an entry names besides local memory is given up: frame, staging slot. REQUIRES: locked.
  void give_up(PageNo page, Word& word, Entry entry) noexcept;
  // Called by staging.
  void landed(Tag tag, Location where) noexcept;

  // --- writes to what is guarded: pager_write.cpp ---
  struct Around;
  Around take_around(PageNo page, Location home) noexcept;
  void lock_row(Around& around, std::uint32_t slot, Slots row) noexcept;
  void leave_around(const Around& around) noexcept;
  [[nodiscard]] bool is_far(Location home) const noexcept { return !frames_.is_near(frames_.place_of(home).node); }
  // ns: what a page costs that has to be sent when it leaves.
  [[nodiscard]] std::uint64_t price_of_leaving(bool far) const noexcept;

  // --- eviction: pager_evict.cpp ---
  struct Taken;
  struct Load;
  // `mercy`: pages that the policy spares stay.
  Taken take(Victim victim, bool mercy) noexcept;
  Taken take_out(Victim victim, bool room, bool mercy) noexcept;
  void take_beside(Taken& taken, Slots dirty) noexcept;
  void leave_beside(Taken& taken, Slots fenced) noexcept;
  void unload(Load& load) noexcept;
  struct Worn;
  void move_elsewhere(const Worn& worn) noexcept;
  void let_leave(const Taken& taken) noexcept;
  Slots send(const Taken& taken, const Seized& seized) noexcept;

  Memory& memory_;
  Frames& frames_;
  Share& budget_;
  Victims& victims_;
  const Prefetcher& prefetcher_;
  const Pins& pins_;
  const Sealer& sealer_;
  const std::uint32_t most_along_;
  const std::unique_ptr<PageTable> table_;
  std::unique_ptr<Staging> staging_;
  ReadBuffer buffer_;
  std::array<ReadCost, 2> costs_;  // of near nodes, of far ones
  std::array<WriteGuess, 2> guesses_;
  Lifts lifts_;
  Odds fences_;  // that what was guarded along is written to while it is here
  std::atomic<std::uint32_t> fence_turn_{0};
  PagerStats own_stats_;
  PagerStats* stats_ = &own_stats_;
  std::atomic<bool> full_{false};
  // Of the thread that tidies.
  PageNo tidied_{};              // how far it came the last time
  bool found_worn_ = false;      // since it began with the first
  Clock::time_point tidy_at_{};  // there was nothing to be done: not again before
};

}  // namespace comex

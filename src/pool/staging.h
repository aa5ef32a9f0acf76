// Staging: evicted pages on their way out (the paper's write buffer). A page is free locally as soon as it is here; it
// can be read from here until its write has been acknowledged.
//
//   reserve -> fill -> commit                one write per batch              acknowledged
//   [ filling ] --full, run used up, flush--> [ closing ] --last commit--> [ writing ] --> landed --> [ free ]
//                                                 ^                            |
//                                  frames came    |                            | failed: another node
//                                            [ waiting ] <---- no frames ------+
//
// A batch's frames are taken when it is opened: one contiguous run, so that the batch leaves as one write of one
// segment, and neighbours that went out together can come back together. When no run of any use is at hand, or the
// node dies, frames are found page by page if need be. A batch that no node takes waits, intact, and is tried again at
// every progress(): pages are never dropped.
//
// Where frames stand for several copies, all are written at once. If one of them cannot be written the page gets
// another frame: so what has landed is in every place that its frame had when it was written.
//
// Where pages are coded, the thread that drives a batch codes it, and writes the parity along. If any of its writes
// fails the whole batch gets other frames: no frame is ever written a second time. See "Coded pages" in
// docs/design-notes.md.
//
// Thread safety: all functions from any thread. mutex_ guards the index, the states and the masks of the batches; it is
// never held across a copy, a write, a callback or a call to the frames. A batch in state `busy` belongs to the thread
// that put it there, which does the slow things without the mutex; this is how several batches are under way at once
// while each is driven by one thread.
// Fault path: all functions but create(); wait_for_room() and drain() wait, and are for threads that may.
//
// Invariants:
//  1. A committed page is found by find() until it is cancelled or its landed callback has returned. So a thread that
//     saw "staged" in the page table and does not find the page here finds something else when it looks there again.
//  2. For each committed page exactly one of these happens, once: landed(tag, where), or cancel(tag) returning true.
//  3. The frame of a cancelled or abandoned page is given back when its batch is done, never while a write to it may
//     be under way.
//
// find() and recycling. find() looks the tag up and pins the batch under the mutex. A batch is freed under the mutex,
// after the last of its tags has left the index, when its pin count is zero. Without an entry in the index nobody can
// pin it anew, so the count only falls, and memory that somebody copies from is never reused: a batch with pins waits
// in state `draining`. Pins are short (the copy of a page).
//
// Newest wins. A page that was staged, came back, was changed and is staged again has its old slot cancelled, or
// landed, before; the index leads to the newest slot, and an old batch removes an entry only if it still leads to it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "pool/batch.h"
#include "pool/erasure.h"
#include "pool/event_count.h"
#include "pool/frames.h"
#include "pool/location.h"
#include "pool/tag_index.h"

namespace comex {

struct StagingConfig {
  std::uint32_t batches = 16;    // of 64 pages: 4 MiB, some milliseconds of writing at full speed
  std::uint32_t short_run = 16;  // pages: a run shorter than this does not make a batch of its own
  unsigned attempts = 3;         // nodes tried in one go before a batch waits
  std::byte* memory = nullptr;   // for the pages, page-aligned, as much as bytes(); none: staging maps its own

  [[nodiscard]] std::size_t bytes(Code code) const { return batches * (kBatchPages + parity_pages(code)) * kPageSize; }
  // Of one batch.
  [[nodiscard]] static std::uint32_t parity_pages(Code code) { return kBatchPages / code.data * code.parity; }
};

struct StagingStats {
  std::uint32_t staged = 0;  // pages that can be found
  std::uint32_t batches_writing = 0;
  std::uint32_t batches_waiting = 0;  // for frames
  std::uint64_t landed = 0;           // pages, in all
  std::uint64_t writes = 0;           // in all
  std::uint64_t failed_writes = 0;    // written again elsewhere, in all
};

class Staging {
 public:
  // Called without a lock of staging, from whatever thread drives the batch, in commit() and flush() too. Must not call
  // back into staging, nor wait for a lock that a caller of staging may hold.
  using Landed = std::function<void(Tag, Location)>;

  // The frames must outlive it. Errc::io if there is no memory for the buffers.
  static Expected<std::unique_ptr<Staging>> create(Frames& frames, const StagingConfig& config, Landed landed);
  // Waits for writes under way, bounded by the links' time-outs. Pages still here are gone: drain() first.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Slots to be filled in place, contiguous in memory. What is in them is undefined.
  struct Reservation {
    std::byte* memory = nullptr;
    std::uint32_t count = 0;  // perhaps fewer than were asked for
    std::uint32_t first = 0;  // staging's own: the number of the first slot
  };
  // For the first pages of `tags`. Nothing if all batches are under way: wait_for_room().
  // REQUIRES: none of the tags is staged now; commit() follows soon, whatever happens.
  std::optional<Reservation> reserve(std::span<const Tag> tags) noexcept;
  // The pages are in place and can be found. They may even land before this returns: the page table must say "staged"
  // by then, not afterwards. Bit i of `abandoned`: the i-th was not filled after all.
  void commit(const Reservation& reservation, std::uint64_t abandoned = 0) noexcept;
  // Both in one, with a copy. False if there is no room.
  bool put(Tag tag, const std::byte* page) noexcept;

  // A staged page's bytes, valid as long as this lives.
  class Pin {
   public:
    Pin(Pin&& other) noexcept : count_(std::exchange(other.count_, nullptr)), bytes_(other.bytes_) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin() {
      if (count_ != nullptr) count_->fetch_sub(1, std::memory_order_release);
    }
    [[nodiscard]] const std::byte* bytes() const noexcept { return bytes_; }

   private:
    friend class Staging;
    Pin(std::atomic<std::uint32_t>* count, const std::byte* bytes) : count_(count), bytes_(bytes) {}
    std::atomic<std::uint32_t>* count_;
    const std::byte* bytes_;
  };
  std::optional<Pin> find(Tag tag) noexcept;
  bool copy_out(Tag tag, std::byte* to) noexcept;
  // The page came back or was discarded: its frame is returned in time. False if it is not here, or lands this moment:
  // the page table has, or is about to have, its location.
  bool cancel(Tag tag) noexcept;

  // Sends what there is, without waiting for a full batch.
  void flush() noexcept;
  // Notices what has landed, writes what failed elsewhere, tries what waits. Never blocks. Somebody must call it now
  // and then while writes are under way.
  void progress() noexcept;
  // ok when reserve() would succeed; timeout, or no_memory when that is because no node has frames. May take a link's
  // transfer time-out longer than the deadline.
  Errc wait_for_room(const Deadline& deadline) noexcept;
  // Flushes and waits until everything committed has landed. As wait_for_room().
  Errc drain(const Deadline& deadline) noexcept;
  // Puts back the frames of a batch that was opened and has no page yet: nothing is held here then. For a fork, after
  // which two would fill the same frames. REQUIRES: drained, and nobody else is inside.
  void put_away() noexcept;

  [[nodiscard]] StagingStats stats() const noexcept;
  // All slots, page-aligned: for a pager that has to register them.
  [[nodiscard]] std::span<std::byte> memory() const noexcept;

 private:
  enum class Outcome : std::uint8_t { pending, failed, complete };
  static constexpr std::uint32_t kNone = UINT32_MAX;

  Staging(Frames& frames, const StagingConfig& config, Landed landed, std::byte* memory);
  [[nodiscard]] Batch& batch_of(std::uint32_t slot) const noexcept { return batches_[slot / kBatchPages]; }
  [[nodiscard]] std::byte* memory_of(const Batch& batch) const noexcept;
  [[nodiscard]] std::byte* parity_of(const Batch& batch, std::uint32_t which) const noexcept;
  // Slots that are written: all that have a page, and what it takes to complete the last column.
  [[nodiscard]] std::uint32_t used(const Batch& batch) const noexcept { return code_.round_up(batch.count); }

  // --- REQUIRES: mutex_ ---
  std::optional<Reservation> carve(std::span<const Tag> tags) noexcept;
  [[nodiscard]] std::uint32_t any(BatchState state) const noexcept;  // the oldest such batch, or kNone
  // Nobody adds to it any more. True if the caller now has it, to pursue().
  bool close(Batch& batch) noexcept;
  void recycle(Batch& batch) noexcept;

  // --- REQUIRES: not mutex_ ---
  bool open_batch() noexcept;
  // Drives a batch that is `busy` for this thread as far as it goes without waiting.
  void pursue(Batch& batch) noexcept;
  // What was taken for it at opening, of which nothing is used yet.
  void put_back(Batch& batch) noexcept;
  void release(Batch& batch, Slots slots) noexcept;
  bool find_places(Batch& batch, Slots live) noexcept;
  Slots look_up_places(Batch& batch, Slots slots) noexcept;
  bool launch(Batch& batch) noexcept;
  // --- staging_code.cpp: where pages are coded ---
  bool find_columns(Batch& batch) noexcept;
  bool look_up_columns(Batch& batch) noexcept;
  void encode(Batch& batch) noexcept;
  Outcome collect(Batch& batch, bool wait) noexcept;
  void conclude(Batch& batch, Outcome outcome) noexcept;
  void land(Batch& batch) noexcept;
  void hand_over(Batch& batch, BatchState state) noexcept;
  // Waits for the oldest write under way; if there is none, for a moment.
  void help(const Deadline& deadline) noexcept;
  template <typename Done>
  Errc wait_until(Done&& done, const Deadline& deadline) noexcept;

  Frames& frames_;
  const StagingConfig config_;
  const Code code_;
  const Landed landed_;
  std::byte* const memory_;
  EventCount moved_;  // a batch became free, or landed

  mutable Mutex mutex_;  // guards all below, but what a busy batch's thread has to itself
  TagIndex index_;
  const std::uint32_t copies_;
  std::unique_ptr<Batch[]> batches_;
  std::unique_ptr<Target[]> targets_;  // of all batches
  std::uint32_t current_ = kNone;      // the one being filled
  std::uint64_t opened_ = 0;
  StagingStats totals_;  // the counts "in all"
};

}  // namespace comex

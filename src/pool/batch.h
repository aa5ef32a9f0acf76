// A batch of staged pages: up to 64 of them, the frames that are to be their homes, and the writes that take them to
// the places of those. Plain data and arithmetic; staging.h has the life of a batch and the locking.
//
//   slots     | 0 | 1 | 2 | 3 | 4 | ...    one page each, contiguous in memory
//   homes     |   run A   | run B |        one frame per slot; usually a single run
//   targets   one per copy: where each slot is written, and the writes, one per node: segments that are contiguous both
//             here and there, without the slots that are not to go
//
// A page has landed when it is written to all its places.
//
// Where pages are coded (pool/code.h) the batch is whole columns: all its slots are written, also those that are not to
// land any more, or never had a page and are zeros. A run of homes is laid over the slots so that neighbours are
// neighbours on a node:
//
//   slots     | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |     a run of 8, columns of 4: 0 2 4 6 and 1 3 5 7
//   homes     | 0 | 4 | 1 | 5 | 2 | 6 | 3 | 7 |     rows of a chunk: see run/chunk_map.h
//   targets   after those of the copies, one per parity: what is a slot for them is a column here
//
// Fault path: everything here; nothing is allocated.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/units.h"
#include "fabric/link.h"
#include "pool/code.h"
#include "pool/location.h"

namespace comex {

inline constexpr std::uint32_t kBatchPages = 64;
inline constexpr std::size_t kBatchBytes = kBatchPages * kPageSize;
static_assert(kBatchPages <= wire::kMaxTransferPages && kBatchPages <= wire::kMaxSegments);

// Names a page: the pager's page number.
using Tag = std::uint64_t;

// One bit per slot.
using Slots = std::uint64_t;

inline constexpr Slots slots_below(std::uint32_t count) {
  return count >= 64 ? ~Slots{0} : (Slots{1} << count) - 1;
}

template <typename F>
void for_each_slot(Slots slots, F&& f) {
  for (; slots != 0; slots &= slots - 1) f(static_cast<std::uint32_t>(std::countr_zero(slots)));
}

// Slots whose pages are coded together: `first`, and so many further on each.
struct Column {
  std::uint8_t first = 0;
  std::uint8_t step = 0;
  [[nodiscard]] constexpr std::uint32_t slot(std::uint32_t row) const { return first + row * std::uint32_t{step}; }
};

struct Write {
  NodeId node;
  Slots slots = 0;
  Transfer transfer;
};

// The frames of a batch, by slot.
struct Homes {
  std::array<Location, kBatchPages> at;         // of the slots in `placed`
  Slots placed = 0;                             // have a frame
  Slots starts = 0;                             // begin a run: the frame before may be in another slab
  std::array<Column, kBatchPages / 2> columns;  // of those that are laid, in order
  Slots column_starts = 0;                      // of these, those that begin a run

  void clear() { placed = starts = column_starts = 0; }
  // Gives the lowest slots of `slots` the frames of `run`, in order; returns those that got one.
  // REQUIRES: run.count <= the number of slots.
  Slots assign(Slots slots, const Run& run);
  // Gives the slots from `first` on the frames of whole columns. REQUIRES: both are multiples of code.data.
  void lay(std::uint32_t first, const Run& run, Code code);
  // Takes their frames away, handing each to `give_back`.
  template <typename F>
  void release(Slots slots, F&& give_back) {
    placed &= ~slots;
    for_each_slot(slots, [&](std::uint32_t slot) { give_back(Run{at[slot].node, at[slot].frame, 1}); });
  }
};

// One copy of a batch.
struct Target {
  std::array<Location, kBatchPages> at;  // of the slots in `slots`
  Slots slots = 0;
  std::array<Segment, kBatchPages> segments;
  std::array<Write, kBatchPages> writes;
  std::uint32_t write_count = 0;

  // Prepares the writes of `slots`, whose pages are at `memory` + slot * kPageSize. Those in `starts` begin a segment.
  void prepare(Slots starts, std::byte* memory);
  [[nodiscard]] std::span<Write> pending_writes() { return std::span(writes).first(write_count); }

 private:
  // Whether the slot's page goes on where the segment, which ends with the slot before it, leaves off.
  [[nodiscard]] bool continues(const Segment& segment, const std::byte* memory, std::uint32_t slot) const;
};

// See the drawing in staging.h.
enum class BatchState : std::uint8_t {
  free,
  filling,   // the current one
  closing,   // complete but for the last commits
  busy,      // in the hands of one thread
  writing,   // submitted; any thread may look whether it is done
  waiting,   // for frames
  draining,  // landed, but pinned
};

struct Batch {
  // Guarded by staging's mutex.
  BatchState state = BatchState::free;
  std::uint64_t age = 0;  // the smaller, the older
  std::uint32_t count = 0;
  std::uint32_t capacity = 0;
  Slots uncommitted = 0;
  Slots live = 0;  // committed, not cancelled, not landing
  std::array<Tag, kBatchPages> tags;
  // Raised under the mutex, lowered without.
  std::atomic<std::uint32_t> pins{0};
  // Of the thread that has the batch while it is busy, and of nobody in other states.
  Run run;  // what was taken at opening
  Homes homes;
  std::span<Target> targets;  // as many as there are copies, and parities
  std::uint32_t ticket = 0;   // of Frames::begin_writes(), while writes are under way
};

}  // namespace comex

// How faults get from the threads that serve them to the keeper, which writes them to a file: a ring per process, in
// memory that both have mapped.
//
// A thread takes a slot by counting `taken` up, writes its words, and then its stamp, which says for which lap of the
// ring it is good. The keeper reads slots in order, as far as they are stamped, and counts `read` up. Nobody waits for
// anybody: where the ring is full, a fault is counted as dropped and that is all.
//
// What a process that is killed had stamped can still be read. A slot that was taken and never stamped (its thread was
// killed in between) is given up by the keeper, who knows when. See "Traces" in docs/design-notes.md.
//
// All zeros is an empty ring. Thread safety: put(), note() and begin() by any thread of the program; the rest by the
// keeper. Fault path: put(); lock-free, nothing is allocated, no system call.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/units.h"
#include "trace/fault.h"

namespace comex {

// Something about a process that is not one of its faults: after its beginning.
struct TraceNote {
  // Of a profile: see trace/profile.h and pager/prefetch/anchors.h.
  enum What : std::uint64_t { executable, arguments, image, heap, mappings };
  std::uint64_t what = 0;
  std::uint64_t value = 0;
};

class TraceRing {
 public:
  static constexpr std::uint64_t kSlots = 1 << 16;  // at 2 us a fault: a good tenth of a second
  static constexpr std::size_t kName = 16;

  // A process begins: its faults follow. A long name is cut.
  void begin(std::uint64_t time, const char* name) noexcept {
    Words words{};
    static_assert(sizeof words == kName);
    std::strncpy(reinterpret_cast<char*>(words.data()), name, kName - 1);
    put(time, kBegin, words);
  }
  void note(std::uint64_t time, const TraceNote& note) noexcept { put(time, kNote, Words{note.what, note.value}); }
  void put(const TraceFault& fault) noexcept {
    const std::uint64_t what = fault.page << kPageAt | std::uint64_t{fault.around} << kAroundAt |
                               std::uint64_t{fault.along} << kAlongAt | std::uint64_t{fault.write} << kWriteAt |
                               static_cast<std::uint64_t>(fault.origin);
    put(fault.time, kFault, Words{what, fault.thread});
  }

  enum class Next { none, unfinished, fault, begin, note };
  // Reads the next slot. `unfinished`: it was taken, but is not stamped; it stays.
  Next next(TraceFault* fault, char* name, TraceNote* note) noexcept {
    const std::uint64_t at = read_.load(std::memory_order_relaxed);
    if (taken_.load(std::memory_order_acquire) == at) return Next::none;
    const Slot& slot = slots_[at % kSlots];
    const std::uint64_t stamp = slot.stamp.load(std::memory_order_acquire);
    if ((stamp & kLaps) != lap(at)) return Next::unfinished;
    Words words;
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = slot.words[i].load(std::memory_order_relaxed);
    read_.store(at + 1, std::memory_order_release);
    fault->time = stamp >> kTimeAt;
    if ((stamp & kBegin) != 0) {
      std::memcpy(name, words.data(), kName);
      name[kName - 1] = 0;
      return Next::begin;
    }
    if ((stamp & kNote) != 0) {
      *note = TraceNote{words[0], words[1]};
      return Next::note;
    }
    fault->page = words[0] >> kPageAt;
    fault->along = static_cast<std::uint8_t>(words[0] >> kAlongAt & TraceFault::kMostAlong);
    fault->around = static_cast<std::uint8_t>(words[0] >> kAroundAt & TraceFault::kMostAlong);
    fault->write = (words[0] >> kWriteAt & 1) != 0;
    fault->origin = static_cast<Origin>(words[0] & kOriginMask);
    fault->thread = static_cast<std::uint32_t>(words[1]);
    return Next::fault;
  }
  // Passes by a slot that will not be finished.
  void give_up() noexcept { read_.fetch_add(1, std::memory_order_release); }
  // Faults that found no room since this was last asked.
  std::uint64_t take_dropped() noexcept { return dropped_.exchange(0, std::memory_order_relaxed); }

 private:
  using Words = std::array<std::uint64_t, 2>;
  struct Slot {
    std::atomic<std::uint64_t> stamp;  // time, what it is, and the lap; written last
    std::array<std::atomic<std::uint64_t>, 2> words;
  };

  static constexpr std::uint64_t kLaps = 0xff;
  static constexpr std::uint64_t kFault = 0;
  static constexpr std::uint64_t kBegin = kLaps + 1;
  static constexpr std::uint64_t kNote = 2 * kBegin;
  static constexpr unsigned kTimeAt = 10;  // the rest: more than half a year
  static constexpr std::uint64_t kOriginMask = 0xf;
  static constexpr unsigned kWriteAt = 4;
  static constexpr unsigned kAlongAt = 5;
  static constexpr unsigned kAroundAt = 11;
  static constexpr unsigned kPageAt = 17;  // the rest: every page that the processor has an address for

  // Not 0 in the first lap.
  static constexpr std::uint64_t lap(std::uint64_t at) { return (at / kSlots + 1) & kLaps; }

  void put(std::uint64_t time, std::uint64_t kind, const Words& words) noexcept {
    std::uint64_t at = taken_.load(std::memory_order_relaxed);
    do {
      // acquire: what is written below comes after what the keeper read.
      if (at - read_.load(std::memory_order_acquire) >= kSlots) {
        dropped_.fetch_add(1, std::memory_order_relaxed);
        return;
      }
    } while (!taken_.compare_exchange_weak(at, at + 1, std::memory_order_acq_rel, std::memory_order_relaxed));
    Slot& slot = slots_[at % kSlots];
    for (std::size_t i = 0; i < words.size(); ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
    slot.stamp.store(time << kTimeAt | kind | lap(at), std::memory_order_release);
  }

  alignas(64) std::atomic<std::uint64_t> taken_;
  std::atomic<std::uint64_t> dropped_;
  alignas(64) std::atomic<std::uint64_t> read_;
  alignas(kPageSize) std::array<Slot, kSlots> slots_;
};

static_assert(sizeof(TraceRing) % kPageSize == 0 && std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace comex

// A page-table entry: 64 bits that say where a page of the program is.
//
//       63      62  57  56      55      54     53      52    51  48 47      32 31             0
//   [revised][ mark ][hidden][queued][clean][waited][busy][ state ][  node  ][    frame    ]
//
//                   first touch                    written out
//   untouched ------------------> resident ------> staged ------> remote
//       ^                          ^  |  ^            |              |
//       | program discards it      |  |  +-- fault ---+              |
//       +--------------------------+  |  +------- fault: resident, clean
//       (from any state)              +--- evicted while clean -----> remote
//
// busy: one thread has the entry to itself: it resolves a fault, evicts the page or changes the layout. Everybody else
//   waits, but staging, which may turn staged into remote at any time (see Pager::landed).
// clean: resident, guarded against writes, and node and frame still have the same bytes. A write makes it dirty first.
// A resident page that is not clean may be guarded, too (kFenced, where others have their frame): eviction has guarded
//   what is around it. Nothing follows from that but a fault at the next write, which lifts the guard.
// hidden: the program has taken its own right to read the page: eviction has to peek (pager/memory.h), or lets it be.
// queued: in the first entries of a block, whatever their state: in the i-th, that the block is in eviction's i-th
// queue. mark: the eviction policy's, of this page: see pager/evict/victims.h. Whoever has the entry changes it.
// revised: when it was here clean, whatever its state is now, it was written to: it will be again (Pager::fetch).
#pragma once

#include <cstdint>

#include "pool/location.h"

namespace comex {

enum class PageState : std::uint8_t {
  none = 0,       // not a page of ours
  untouched = 1,  // ours; all zeros, and nowhere
  resident = 2,   // in local memory
  staged = 3,     // in staging, on its way out
  remote = 4,     // in a frame
};

struct Mark {
  static constexpr unsigned kBits = 6;

  std::uint8_t value = 0;

  // The last bits of a number.
  static constexpr Mark of(std::uint32_t number) {
    return Mark{static_cast<std::uint8_t>(number & ((1U << kBits) - 1))};
  }
  friend constexpr bool operator==(Mark, Mark) = default;
};

class Entry {
 public:
  static constexpr std::uint64_t kBusy = std::uint64_t{1} << 52;
  static constexpr std::uint64_t kWaited = std::uint64_t{1} << 53;
  static constexpr std::uint64_t kClean = std::uint64_t{1} << 54;
  static constexpr std::uint64_t kQueued = std::uint64_t{1} << 55;
  static constexpr std::uint64_t kHidden = std::uint64_t{1} << 56;
  static constexpr unsigned kMarkShift = 57;
  static constexpr std::uint64_t kMark = ((std::uint64_t{1} << Mark::kBits) - 1) << kMarkShift;
  static constexpr std::uint64_t kRevised = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kFenced = 1;
  // What survives any change of state.
  static constexpr std::uint64_t kKept = kQueued | kHidden | kMark | kRevised;

  constexpr Entry() = default;
  constexpr explicit Entry(std::uint64_t bits) : bits_(bits) {}
  constexpr explicit Entry(PageState state) : bits_(std::uint64_t{static_cast<std::uint8_t>(state)} << 48) {}
  static constexpr Entry remote(Location at) { return Entry(Entry(PageState::remote).bits_ | encode(at)); }
  static constexpr Entry fenced() { return Entry(Entry(PageState::resident).bits_ | kFenced); }
  static constexpr Entry clean(Location at) { return Entry(Entry(PageState::resident).bits_ | kClean | encode(at)); }

  [[nodiscard]] constexpr std::uint64_t bits() const { return bits_; }
  [[nodiscard]] constexpr PageState state() const { return static_cast<PageState>(bits_ >> 48 & 0xf); }
  [[nodiscard]] constexpr bool is(PageState state) const { return this->state() == state; }
  [[nodiscard]] constexpr bool busy() const { return (bits_ & kBusy) != 0; }
  [[nodiscard]] constexpr bool hidden() const { return (bits_ & kHidden) != 0; }
  [[nodiscard]] constexpr bool revised() const { return (bits_ & kRevised) != 0; }
  [[nodiscard]] constexpr bool clean() const { return (bits_ & kClean) != 0; }
  [[nodiscard]] constexpr Mark mark() const { return Mark{static_cast<std::uint8_t>((bits_ & kMark) >> kMarkShift)}; }
  // A write to it is a fault.
  [[nodiscard]] constexpr bool guarded() const {
    return is(PageState::resident) && (clean() || (bits_ & kFenced) != 0);
  }
  // Nothing is to be done before the kernel may touch the page, and nobody is about to take it away if it was pinned
  // before: busy and resident may be on its way out, for eviction that looked for pins before finishes.
  [[nodiscard]] constexpr bool settled(bool write) const {
    return is(PageState::none) || (!busy() && is(PageState::resident) && !(write && guarded()));
  }
  [[nodiscard]] constexpr Location location() const {
    return Location{NodeId{static_cast<std::uint16_t>(bits_ >> 32)}, FrameNo{static_cast<std::uint32_t>(bits_)}};
  }

 private:
  static constexpr std::uint64_t encode(Location at) {
    return std::uint64_t{at.node.value} << 32 | std::uint64_t{at.frame.value};
  }
  std::uint64_t bits_ = 0;
};

}  // namespace comex

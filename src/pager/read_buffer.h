// The read buffer: copies of remote pages that nobody has asked for yet, and those on their way here.
//
// Pages come in groups, read together, which is begun and not waited for: several may be under way. Who wants a page
// that is on its way waits for that read, and for no other. A page that is used leaves at once; of the groups, the
// first to come is the first to go, with all of it that was never used.
//
// A page is here, or on its way, only while its entry says remote, and its frame has the same bytes: whoever changes
// the entry has it locked, and takes or drops the copy first. So a frame is never given back while it is being read.
//
//   group:   free -> filling -> reading -> here -> (in turn) filling ...
//
// Thread safety: all functions from any thread. Fault path: all of them; nothing is allocated, and the lock is not held
// across I/O, nor for the copying of a page.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/mutex.h"
#include "pager/memory.h"
#include "pager/page.h"
#include "pager/reads.h"
#include "pool/frames.h"

namespace comex {

class ReadBuffer {
 public:
  static constexpr std::uint32_t kPages = 4096;      // to start with
  static constexpr std::uint32_t kGroupPages = 32;   // that one read brings at most
  static constexpr std::uint32_t kMostUnderWay = 8;  // groups

  // For about `pages` pages. With no memory to be had it holds none.
  ReadBuffer(Memory& memory, Frames& frames, std::uint32_t pages) noexcept;

  // REQUIRES of each: the page's entry is locked by this thread.
  // Waits if it is on its way. False if it is not here. `lead`, if given: how long ago it was asked for.
  bool take(PageNo page, std::byte* to, Nanos* lead = nullptr) noexcept;
  void drop(PageNo page) noexcept { (void)take(page, nullptr); }
  // Here, or on its way.
  [[nodiscard]] bool has(PageNo page) noexcept;

  // A read of several pages: to be filled, and begun. None if too many are under way already.
  class Coming;
  [[nodiscard]] std::optional<Coming> prepare() noexcept;

  // To be called now and then: notices what has come.
  void progress() noexcept;
  // Waits for all that is under way.
  void settle() noexcept;
  // All that is here, gone. REQUIRES: settled, and nobody else is inside.
  void forget() noexcept;

 private:
  enum class State : std::uint8_t { free, filling, reading, here };
  using SlotNo = std::uint16_t;  // and one; 0: none

  struct Group {
    State state = State::free;
    std::uint32_t ticket = 0;  // of Frames::begin_reads(), while it is filled or read
    std::uint32_t count = 0;
    std::uint32_t pins = 0;  // threads that look at it without the lock
    std::array<PageNo, kGroupPages> pages;
    Clock::time_point asked;
    Reads<kGroupPages> reads;
  };

  // --- REQUIRES: mutex_ ---
  [[nodiscard]] SlotNo* link_to(PageNo page) noexcept;  // the link of its chain that names it, or the last
  void remove(SlotNo& link) noexcept;
  void clear(Group& group) noexcept;
  // Whether its read is over; if so it is not under way any more.
  bool notice(Group& group) noexcept;

  void begin(Group& group) noexcept;
  bool add(Group& group, PageNo page, Location place) noexcept;
  // Waits for what is under way with it. REQUIRES: pinned, and not mutex_.
  [[nodiscard]] bool wait_for(Group& group) noexcept;
  [[nodiscard]] std::byte* bytes_of(const Group& group, std::uint32_t slot) const noexcept {
    return memory_ + (static_cast<std::size_t>(&group - groups_) * kGroupPages + slot) * kPageSize;
  }
  [[nodiscard]] SlotNo& head_of(PageNo page) noexcept { return heads_[page.value % (count_ * kGroupPages)]; }

  Frames& frames_;
  std::uint32_t count_ = 0;             // of groups
  std::atomic<std::uint32_t> held_{0};  // pages; to look at without the lock, by who has the page locked
  Mutex mutex_;                         // guards all below, but what a state leaves to one thread
  Group* groups_ = nullptr;
  std::uint32_t next_ = 0;       // the next to be filled
  std::uint32_t under_way_ = 0;  // groups that are read, or filled to be
  SlotNo* heads_ = nullptr;      // chains of slots, by page
  SlotNo* links_ = nullptr;      // from one slot to the next in its chain
  std::byte* memory_ = nullptr;
};

// REQUIRES: begun or given up by the thread that made it.
class ReadBuffer::Coming {
 public:
  Coming(ReadBuffer& buffer, Group& group) : buffer_(buffer), group_(group) {}
  [[nodiscard]] bool full() const noexcept { return group_.count == kGroupPages; }
  [[nodiscard]] std::uint32_t count() const noexcept { return group_.count; }
  // False if it is full, or on too many nodes. REQUIRES: the entry is locked by this thread, and stays locked until the
  // read has begun; the page is not here. The place is where it was found to be since prepare().
  bool add(PageNo page, Location place) noexcept { return buffer_.add(group_, page, place); }
  // With nothing in it, gives it up.
  void begin() noexcept { buffer_.begin(group_); }

 private:
  ReadBuffer& buffer_;
  Group& group_;
};

}  // namespace comex

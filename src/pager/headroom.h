// How many pages eviction keeps free ahead of need.
//
//   limit - local:   0 ......... room ............ room + depth
//                    |  rests: wakes here <--      |  works until here, then rests
//
// The room is for what comes in between the moment at which eviction is woken and that at which it has made progress:
// the rate at which pages come, times how long that takes. Both are measured at once, by what was left of the room when
// it was at its least. Pages that are kept free are pages that the program does not have, so the room is no larger than
// it has to be: twice what was needed lately. If it was used up, faults had to evict by themselves, or went without
// what could have come along: then it doubles.
//
// Thread safety: turn() and rest() by one thread; the rest from any. Relaxed atomics: nothing is published through
// them. Fault path: yes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace comex {

class Headroom {
 public:
  // Pages. Less, and two threads that bring in 64 pages at a time would use it up at once.
  static constexpr std::uint64_t kLeastRoom = 256;
  // What is taken at a time: to be woken costs as much as to take a few pages away.
  static constexpr std::uint64_t kDepth = 512;

  // `most`: pages, of room and depth together.
  [[nodiscard]] std::uint64_t room(std::uint64_t most) const noexcept {
    return std::min(room_.load(std::memory_order_relaxed), most / 2);
  }
  static std::uint64_t depth(std::uint64_t most) noexcept { return std::min(kDepth, most / 2); }

  // Eviction is at work, and so many pages are free now.
  void turn(std::uint64_t free) noexcept { least_ = std::min(least_, free); }
  // It has done its work for now.
  void rest(std::uint64_t most) noexcept {
    if (least_ == UINT64_MAX) return;  // there was none
    const std::uint64_t had = room(most);
    const std::uint64_t used = had - std::min(had, least_);
    need_ = std::max(used, need_ - need_ / kMemory);
    if (least_ < kUsedUp) need_ = had;
    least_ = UINT64_MAX;
    room_.store(std::clamp(2 * need_, kLeastRoom, std::max(most / 2, kLeastRoom)), std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kUsedUp = 64;  // so much can come at once
  // What was needed is forgotten by one in so many, with each turn of work: of a program that has filled its memory as
  // fast as it could, by the time that it has had 32 MiB taken away.
  static constexpr std::uint64_t kMemory = 16;

  std::atomic<std::uint64_t> room_{UINT64_MAX};  // all there may be, until something is known
  std::uint64_t need_ = 0;
  std::uint64_t least_ = UINT64_MAX;  // free at a time since it last rested
};

}  // namespace comex

// A clock that goes on as pages leave, not as time passes: what counts is how many pages had to leave between the
// moment at which a page did and the moment at which it was missed. If that were fewer than are local, it would still
// be here had it not been taken before them.
//
// A tick is a quarter of what is local. A mark has room for the last few bits of the clock, so what left very long ago
// looks as if it had left a moment ago: with `bits` of them, from 2^(bits - 2) times the local memory on. That is rare,
// and costs a page a place that it does not deserve.
//
// Thread safety: advance() by one thread at a time, now() from any. Fault path: all functions.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace comex {

class EvictionClock {
 public:
  static constexpr std::uint32_t kTicks = 4;  // while all that is local leaves

  // So many pages leave, of `local` ones. True if it ticks: once at most, however many they are.
  bool advance(std::uint64_t pages, std::uint64_t local) noexcept {
    since_ += pages;
    const std::uint64_t tick = std::max<std::uint64_t>(local / kTicks, 1);
    if (since_ < tick) return false;
    since_ = std::min(since_ - tick, tick);
    now_.store(now() + 1, std::memory_order_relaxed);
    return true;
  }
  [[nodiscard]] std::uint32_t now() const noexcept { return now_.load(std::memory_order_relaxed); }
  // How many ticks ago it was that the last `bits` of the clock were `then`.
  [[nodiscard]] std::uint32_t since(std::uint32_t then, unsigned bits) const noexcept {
    return (now() - then) & ((1U << bits) - 1);
  }

 private:
  std::uint64_t since_ = 0;  // the last tick: pages
  std::atomic<std::uint32_t> now_{0};
};

}  // namespace comex

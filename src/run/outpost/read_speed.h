// How long reads from a node take, as far as they were measured, to choose among copies.
//
// What counts is the trip, so only short reads are looked at. The figure that is compared follows the average only when
// that has moved by a quarter: nodes that are equally fast do not take turns.
//
// Thread safety: any thread; relaxed, a measurement lost now and then does not matter. Fault path: yes.
// Part of the code inside programs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace comex {

class ReadSpeed {
 public:
  static constexpr std::uint32_t kMostPages = 4;

  void saw(std::uint32_t pages, Nanos took) noexcept {
    if (pages > kMostPages) return;
    const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(took.count(), 1));
    const std::uint64_t before = average_.load(std::memory_order_relaxed);
    const std::uint64_t now = before == 0 ? ns : before - before / 8 + ns / 8;
    average_.store(now, std::memory_order_relaxed);
    const std::uint64_t shown = shown_.load(std::memory_order_relaxed);
    if (now * 4 > shown * 5 || now * 5 < shown * 4) shown_.store(now, std::memory_order_relaxed);
  }
  // ns; 0: not known.
  [[nodiscard]] std::uint64_t ns() const noexcept { return shown_.load(std::memory_order_relaxed); }

  // So much faster that reads should go there instead.
  [[nodiscard]] bool clearly_faster_than(const ReadSpeed& other) const noexcept {
    return ns() != 0 && other.ns() != 0 && ns() * 4 < other.ns() * 3;
  }
  // After so many measured reads of the other, this one should be measured again: the slower it is, the more seldom, so
  // that it costs no more than one part in so many of the time.
  [[nodiscard]] std::uint64_t measure_after(const ReadSpeed& other) const noexcept {
    constexpr std::uint64_t kUnknown = 4;
    constexpr std::uint64_t kShare = 64;
    if (ns() == 0 || other.ns() == 0) return kUnknown;
    return kShare * std::max<std::uint64_t>(ns() / other.ns(), 1);
  }

 private:
  std::atomic<std::uint64_t> average_{0};
  std::atomic<std::uint64_t> shown_{0};
};

}  // namespace comex

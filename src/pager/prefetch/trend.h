// The trend of a stream of faults: the distance between one and the next that most of the last ones agree on.
//
// Boyer and Moore's vote finds the only candidate for a majority in one pass and constant memory; a second pass counts
// it. It looks at few deltas first, so that a new trend is seen soon, and at more as long as they do not agree, so that
// a few faults out of line do not hide a trend (Leap, USENIX ATC 2020, algorithm 1).
//
// Thread safety: one thread. Fault path: yes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace comex {

// The last distances between faults of a stream, in pages; 0: too far to say, or none.
class Deltas {
 public:
  static constexpr std::uint32_t kMost = 32;

  void push(std::int32_t delta) noexcept {
    ring_[next_ % kMost] = delta;
    ++next_;
    if (size_ < kMost) ++size_;
  }
  void clear() noexcept { size_ = 0; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  // 0: the newest. REQUIRES: there are so many.
  [[nodiscard]] std::int32_t back(std::uint32_t i) const noexcept { return ring_[(next_ - 1U - i) % kMost]; }
  [[nodiscard]] bool repeats() const noexcept { return size_ >= 2 && back(0) == back(1); }

 private:
  std::array<std::int32_t, kMost> ring_{};
  std::uint8_t next_ = 0;  // wraps: kMost divides 256
  std::uint8_t size_ = 0;
};
static_assert(256 % Deltas::kMost == 0);

// What more than half of the newest `count` deltas are; 0: there is no such thing.
inline std::int32_t majority(const Deltas& deltas, std::uint32_t count) noexcept {
  std::int32_t candidate = 0;
  std::uint32_t votes = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::int32_t delta = deltas.back(i);
    if (votes == 0) candidate = delta;
    if (delta == candidate) {
      ++votes;
    } else {
      --votes;
    }
  }
  std::uint32_t found = 0;
  for (std::uint32_t i = 0; i < count; ++i) found += deltas.back(i) == candidate;
  return 2 * found > count ? candidate : 0;
}

// Looks at the newest history / split deltas first, then at twice as many, up to `history`. A stream that has just
// begun has fewer; those must be two at least.
inline std::int32_t find_trend(const Deltas& deltas, std::uint32_t history, std::uint32_t split) noexcept {
  if (deltas.size() < 2) return 0;
  for (std::uint32_t window = history / split; window <= history; window *= 2) {
    if (const std::int32_t trend = majority(deltas, std::min(window, deltas.size())); trend != 0) return trend;
    if (window >= deltas.size()) break;
  }
  return 0;
}

}  // namespace comex

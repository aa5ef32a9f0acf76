// Chunks of pages that have lost copies, in the order in which they get new ones: of those with the fewest copies left
// the one that has waited longest, for the next loss would be their last. A chunk may be in it more than once, or gone
// meanwhile: who takes it looks. The keeper and the programs of the simulation mend by it.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/clock.h"
#include "pool/frames.h"

namespace comex {

inline constexpr std::uint64_t kMendRate = 64 << 20;  // bytes in a second, of one program, at most
inline constexpr Millis kMendAgain{500};              // after there was no node to copy to

class MendQueue {
 public:
  // `left`: copies, or rows of a code.
  void push(std::uint32_t chunk, std::uint32_t left) {
    by_left_[std::min<std::size_t>(left, by_left_.size() - 1)].push_back(chunk);
  }
  // Takes out the first that `fits`.
  template <typename F>
  std::optional<std::uint32_t> take(F&& fits) {
    for (auto& queue : by_left_) {
      const auto found = std::find_if(queue.begin(), queue.end(), fits);
      if (found == queue.end()) continue;
      const std::uint32_t chunk = *found;
      queue.erase(found);
      return chunk;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::size_t size() const {
    std::size_t size = 0;
    for (const auto& queue : by_left_) size += queue.size();
    return size;
  }
  [[nodiscard]] bool empty() const { return size() == 0; }

 private:
  std::array<std::deque<std::uint32_t>, kMostPlaces> by_left_;
};

}  // namespace comex

// What something usually costs, by those times that were measured. One measurement far above the others, during which
// the thread was not running, hardly counts.
// Thread safety: any thread; relaxed, a measurement lost now and then does not matter. Fault path: yes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace comex {

class UsualCost {
 public:
  void note(std::uint64_t ns) noexcept {
    const std::uint64_t before = ns_.load(std::memory_order_relaxed);
    const std::uint64_t counts = std::min(ns, std::max(kMostAbove * before, kLeast));
    ns_.store(before == 0 ? ns : before - before / kMemory + counts / kMemory, std::memory_order_relaxed);
  }
  // 0 as long as nothing has been measured.
  [[nodiscard]] std::uint64_t ns() const noexcept { return ns_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kMemory = 8;
  static constexpr std::uint64_t kMostAbove = 4;
  static constexpr std::uint64_t kLeast = 1'000;  // so much is never far above

  std::atomic<std::uint64_t> ns_{0};
};

}  // namespace comex

// How often something follows: of the last so many times that it could have. Forgets by halves.
// Thread safety: any thread; relaxed, a count lost now and then does not matter. Fault path: yes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace comex {

class Odds {
 public:
  static constexpr std::uint32_t kOne = 1024;

  // So many times it may follow now.
  void tried(std::uint32_t times) noexcept {
    const std::uint32_t tried = tried_.fetch_add(times, std::memory_order_relaxed) + times;
    if (tried < kWindow) return;
    tried_.store(0, std::memory_order_relaxed);
    const std::uint32_t followed = std::min(tried, followed_.exchange(0, std::memory_order_relaxed));
    const auto share = static_cast<std::uint32_t>(std::uint64_t{followed} * kOne / tried);
    share_.store((share_.load(std::memory_order_relaxed) + share) / 2, std::memory_order_relaxed);
  }
  void followed() noexcept { followed_.fetch_add(1, std::memory_order_relaxed); }
  // What was counted and is not yet part of the share is forgotten: from now on others are.
  void begin_anew() noexcept {
    tried_.store(0, std::memory_order_relaxed);
    followed_.store(0, std::memory_order_relaxed);
  }
  // Of kOne.
  [[nodiscard]] std::uint32_t share() const noexcept { return share_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kWindow = 64;

  std::atomic<std::uint32_t> tried_{0};
  std::atomic<std::uint32_t> followed_{0};
  std::atomic<std::uint32_t> share_{0};
};

}  // namespace comex

// How many pages may be local, and how many are. One for a whole tree of processes: plain words that may lie in memory
// they share.
//
//   0 ......... low ........... high ....... limit
//               |  eviction runs ahead  |     |  a fault that would go beyond evicts first
//
// Eviction begins when there is more than `high` and goes on until there is no more than `low`.
//
// Thread safety: all functions from any thread and process. Relaxed atomics: these are counts, nothing is published
// through them. Fault path: yes.
#pragma once

#include <atomic>
#include <cstdint>

namespace comex {

struct Budget {
  std::atomic<std::uint64_t> limit{0};  // pages
  std::atomic<std::uint64_t> high{0};
  std::atomic<std::uint64_t> low{0};
  std::atomic<std::uint64_t> local{0};  // pages that are local now

  // `ahead`: how many pages eviction keeps free.
  void set(std::uint64_t pages, std::uint64_t ahead) noexcept {
    if (ahead > pages / 2) ahead = pages / 2;
    limit.store(pages, std::memory_order_relaxed);
    high.store(pages - ahead / 2, std::memory_order_relaxed);
    low.store(pages - ahead, std::memory_order_relaxed);
  }
  // False, and nothing is charged, if that would go beyond the limit.
  bool try_charge(std::uint64_t pages) noexcept {
    const std::uint64_t before = local.fetch_add(pages, std::memory_order_relaxed);
    if (before + pages <= limit.load(std::memory_order_relaxed)) return true;
    local.fetch_sub(pages, std::memory_order_relaxed);
    return false;
  }
  void charge(std::uint64_t pages) noexcept { local.fetch_add(pages, std::memory_order_relaxed); }
  void release(std::uint64_t pages) noexcept { local.fetch_sub(pages, std::memory_order_relaxed); }
  // How many pages eviction should take now: 0 while there is no need.
  [[nodiscard]] std::uint64_t excess(bool running) const noexcept {
    const std::uint64_t now = local.load(std::memory_order_relaxed);
    if (now <= (running ? low : high).load(std::memory_order_relaxed)) return 0;
    return now - low.load(std::memory_order_relaxed);
  }
};

}  // namespace comex

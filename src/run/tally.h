// What a process under `comex run` counts. Plain words in its account (run/room.h), so that they outlive it however it
// ends; the keeper adds them up (run/keeper/census.h).
//
// A process counts in several places, each a few cache lines of its own: threads that fault at the same time are spread
// over them. Thread safety: relaxed atomics, nothing is published through them. Fault path: yes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "pager/pager_stats.h"
#include "pool/location.h"

namespace comex {

struct alignas(64) Tally {
  PagerStats pager;
  std::atomic<std::uint64_t> calls{0};         // that were trapped
  std::atomic<std::uint64_t> direct_calls{0};  // that came to the gate by themselves
};

// Pages between one process and one node.
struct alignas(64) Traffic {
  std::atomic<std::uint32_t> node{0};  // its id and one; 0: free
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> pages_read{0};
  std::atomic<std::uint64_t> pages_written{0};
};

// All of one process.
struct Record {
  static constexpr std::size_t kTallies = 8;
  static constexpr std::size_t kNodes = 16;  // those beyond share the last
  static constexpr std::size_t kName = 16;

  std::array<Tally, kTallies> tallies;
  std::array<Traffic, kNodes> traffic;
  std::atomic<std::uint64_t> since{0};  // when it was begun, in ns of CLOCK_BOOTTIME; 0: not yet
  std::array<std::atomic<char>, kName> name{};

  void begin(const char* program, std::uint64_t now) noexcept {
    for (std::size_t i = 0; i + 1 < kName; ++i) {
      name[i].store(*program, std::memory_order_relaxed);
      if (*program != 0) ++program;
    }
    since.store(now, std::memory_order_release);
  }
  Traffic& with(NodeId id) noexcept {
    const std::uint32_t mine = std::uint32_t{id.value} + 1;
    for (Traffic& each : traffic) {
      std::uint32_t seen = 0;
      if (each.node.compare_exchange_strong(seen, mine, std::memory_order_relaxed) || seen == mine) return each;
    }
    return traffic.back();
  }
  // REQUIRES: nobody counts here.
  void clear() noexcept { std::memset(static_cast<void*>(this), 0, sizeof *this); }
};

}  // namespace comex

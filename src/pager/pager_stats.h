// What the pager counts. Relaxed atomics; a thread that faults counts in a place of its own choice (Faulter::stats), so
// that threads do not fight for one cache line.
// Thread safety: any thread. Fault path: yes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>

namespace comex {

struct PagerStats {
  using Count = std::atomic<std::uint64_t>;

  std::array<Count, 9> faults{};  // by Served
  Count pages_in{0};              // read from frames
  Count pages_along{0};           // brought in, from frames or zeros, before anybody asked for them
  Count along_used{0};            // ... of which a scan went on past
  Count pages_around{0};          // read into the read buffer
  Count around_used{0};           // ... of which somebody wanted
  // Of those, one in kTimed, by how long before they had been asked for: below 1 us, 2, 4, ...
  static constexpr std::size_t kLeads = 24;
  std::array<Count, kLeads> leads{};
  Count known{0};    // faults that were where they had been in an earlier run
  Count unknown{0};  // ... and that were not
  Count evicted{0};
  Count dropped{0};              // ... of which were clean, and not sent
  Count evictions_by_faults{0};  // times that eviction was behind
  Count waits{0};                // faults whose page was in other hands: eviction's, or another fault's
  Count wrong{0};                // came from frames, and were not what had been sent
  Count mended{0};               // ... of which another try or another copy was
  Count fault_ns{0};             // spent in faults, from one in kTimed of them

  static constexpr std::uint32_t kTimed = 16;
  // One turn in kTimed, at changing distances: what a program does is regular, too.
  static constexpr bool is_timed(std::uint32_t turn) noexcept { return turn * 0x9e3779b1U >> 28 == 0; }

  void add_lead(std::chrono::nanoseconds lead) noexcept {
    const auto us = static_cast<std::uint64_t>(lead.count()) / 1000;
    add(leads[std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(us)), kLeads - 1)]);
  }
  static void add(Count& count, std::uint64_t n = 1) noexcept { count.fetch_add(n, std::memory_order_relaxed); }
};

}  // namespace comex

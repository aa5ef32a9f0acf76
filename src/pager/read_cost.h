// What reads from a kind of link cost, as measured: the trip, and each page that comes with it. From that, how likely
// a page must be wanted to be brought along.
//
// A page that comes along costs its part of the read and the placing; one that does not, and is wanted, costs a trip
// and a fault. So one in (trip + fault) / (page + placing) must be used.
//
// Thread safety: any thread; relaxed, a measurement lost now and then does not matter. Fault path: yes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace comex {

class ReadCost {
 public:
  void note(std::uint32_t pages, std::uint64_t ns) noexcept {
    if (pages == 0) return;
    if (pages == 1) return blend(trip_, ns);
    const std::uint64_t trip = trip_.load(std::memory_order_relaxed);
    if (trip > 0 && ns > trip) blend(page_, (ns - trip) / (pages - 1));
  }
  // Of pages that come along, one in so many must be used. `otherwise`: as long as nothing has been measured.
  [[nodiscard]] std::uint32_t one_in(std::uint32_t otherwise) const noexcept {
    constexpr std::uint64_t kFault = 4'000;    // ns: delivering one, and placing its page
    constexpr std::uint64_t kPlacing = 1'000;  // ns: a page more, and evicting another for it
    constexpr std::uint32_t kMost = 16;
    const std::uint64_t trip = trip_.load(std::memory_order_relaxed);
    const std::uint64_t page = page_.load(std::memory_order_relaxed);
    if (trip == 0 || page == 0) return otherwise;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>((trip + kFault) / (page + kPlacing), 1, kMost));
  }

 private:
  static void blend(std::atomic<std::uint64_t>& average, std::uint64_t ns) noexcept {
    const std::uint64_t before = average.load(std::memory_order_relaxed);
    average.store(before == 0 ? ns : before - before / 8 + ns / 8, std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> trip_{0};  // ns
  std::atomic<std::uint64_t> page_{0};
};

}  // namespace comex

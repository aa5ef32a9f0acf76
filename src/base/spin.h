// Whether to spin before sleeping, and how long.
//
// A wake-up costs a few microseconds on bare metal and tens in a virtual machine, often more than the round trip that
// is waited for; so a waiter spins first. It must not when it would take the core from whoever it waits for. The
// policy learns both from what happened:
//  - a wait shorter than the limit would have been caught by spinning: spin longer; one that was not: shorter. A
//  sleeper
//    is woken late, and cannot know how long it need have waited: now and then it spins to see;
//  - a yield that takes long means that somebody else wanted this core: do not spin for a while.
// What is ready at the first look costs no look at the clock, nor does telling the policy that spinning was enough.
//
// Thread safety: any number of threads may share one policy; the fields are hints, so relaxed atomics suffice.
// Fault path: yes.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace comex {

class SpinPolicy {
 public:
  // With a limit of zero, or on a single core, never spins.
  explicit SpinPolicy(Nanos limit) : limit_(cores() > 1 ? limit.count() : 0), budget_(limit_) {}

  // Calls ready() until it is true (returns true) or spinning does not pay (returns false: go to sleep).
  template <typename Ready>
  bool spin(Ready&& ready) noexcept {
    if (ready()) return true;
    auto budget = budget_.load(std::memory_order_relaxed);
    if (budget == 0) {
      if (limit_ == 0 || asleep_.fetch_add(1, std::memory_order_relaxed) % kTryAgain != kTryAgain - 1) return false;
      budget = limit_;
    }
    const auto start = Clock::now();
    if (since_epoch(start) < pause_until_.load(std::memory_order_relaxed)) return false;
    auto next_yield = start + kYieldEvery;
    for (;;) {
      for (int i = 0; i < kTriesPerLook; ++i) {
        pause();
        if (!ready()) continue;
        budget_.store(limit_, std::memory_order_relaxed);
        return true;
      }
      auto now = Clock::now();
      if ((now - start).count() > budget) return false;
      if (now < next_yield) continue;
      sched_yield();
      const auto back = Clock::now();
      if (back - now > kSomebodyElseRan) {
        pause_until_.store(since_epoch(back + kPause), std::memory_order_relaxed);
        return ready();
      }
      next_yield = back + kYieldEvery;
    }
  }

  // Tells how long the wait was in all (spinning and sleeping).
  void observe(Nanos waited) noexcept {
    const auto budget = budget_.load(std::memory_order_relaxed);
    const auto next = waited.count() <= limit_ ? std::min(limit_, std::max(budget * 2, limit_ / 8)) : budget / 2;
    if (next != budget) budget_.store(next, std::memory_order_relaxed);
  }

  // The same of a wait for which spinning was enough.
  void observe_caught() noexcept { observe(Nanos(0)); }

  [[nodiscard]] Nanos budget() const { return Nanos(budget_.load(std::memory_order_relaxed)); }

 private:
  static constexpr int kTriesPerLook = 4;
  static constexpr std::uint32_t kTryAgain = 64;  // waits
  static constexpr auto kYieldEvery = std::chrono::microseconds(5);
  // Whoever serves a page, or a part of that, is done sooner: to give way to it is as good as to sleep, and cheaper.
  static constexpr auto kSomebodyElseRan = std::chrono::microseconds(250);
  static constexpr auto kPause = std::chrono::milliseconds(5);

  static std::int64_t since_epoch(Clock::time_point t) { return t.time_since_epoch().count(); }
  static int cores() noexcept {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  }
  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::int64_t limit_;
  std::atomic<std::int64_t> budget_;
  std::atomic<std::int64_t> pause_until_{0};
  std::atomic<std::uint32_t> asleep_{0};  // waits without spinning
};

}  // namespace comex

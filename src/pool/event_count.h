// Lets threads sleep until something happens, without a lock and without missing it.
//
//   const auto seen = event.current();
//   if (!condition()) event.wait(seen, until);   // returns at once if advance() came in between
//
// Thread safety: all functions from any thread.
// Fault path: yes. advance() makes a system call only when somebody sleeps.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/futex.h"

namespace comex {

class EventCount {
 public:
  using Ticket = std::uint32_t;

  [[nodiscard]] Ticket current() const noexcept { return count_.load(std::memory_order_acquire); }

  // seq_cst here and in wait(): either this thread sees the waiter, or the waiter sees the new count.
  void advance() noexcept {
    count_.fetch_add(1, std::memory_order_seq_cst);
    if (waiters_.load(std::memory_order_seq_cst) != 0) futex_wake_all(count_);
  }

  // True if advance() was called since `seen` was taken; false if `until` passed first.
  bool wait(Ticket seen, Clock::time_point until) noexcept {
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    bool advanced = false;
    while (!(advanced = count_.load(std::memory_order_seq_cst) != seen)) {
      const Nanos left = until - Clock::now();
      if (left <= Nanos::zero()) break;
      futex_wait(count_, seen, left);
    }
    waiters_.fetch_sub(1, std::memory_order_relaxed);
    return advanced;
  }

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> waiters_{0};
};

}  // namespace comex

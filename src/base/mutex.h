// A mutex that is one word and knows nothing of libc.
//
// The fault path runs in signal handlers and on threads that libc has never heard of. pthread_mutex_t is not for them:
// libc locks without atomic instructions while it believes that there is one thread. This is the three-state futex lock
// of Drepper's "Futexes Are Tricky": free, held, held with sleepers.
//
// Thread safety: that is its purpose. Fault path: yes. Not recursive.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/futex.h"

namespace comex {

class Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() noexcept {
    std::uint32_t seen = kFree;
    if (word_.compare_exchange_strong(seen, kHeld, std::memory_order_acquire, std::memory_order_relaxed)) return;
    lock_slow();
  }
  bool try_lock() noexcept {
    std::uint32_t seen = kFree;
    return word_.compare_exchange_strong(seen, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() noexcept {
    if (word_.exchange(kFree, std::memory_order_release) == kContended) futex_wake_one(word_);
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kContended = 2;
  // What is guarded is short: whoever has it is likely to be done before a sleeper would have fallen asleep.
  static constexpr int kTries = 100;

  void lock_slow() noexcept {
    for (int i = 0; i < kTries; ++i) {
      if (word_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    while (word_.exchange(kContended, std::memory_order_acquire) != kFree) {
      futex_wait(word_, kContended, std::chrono::seconds(1));
    }
  }

  std::atomic<std::uint32_t> word_{kFree};
};

}  // namespace comex

// Sleeping on a word and waking its sleepers. Fault-path safe: bare system calls.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include "base/clock.h"

namespace comex {

// Returns when woken, when `word` is not `seen`, or after `longest`; spuriously too. Callers look again.
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, Nanos longest) noexcept {
  timespec ts{static_cast<time_t>(longest.count() / 1'000'000'000), static_cast<long>(longest.count() % 1'000'000'000)};
  syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, &ts, nullptr, 0);
}

inline void futex_wake_one(const std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

inline void futex_wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// The same between processes, on memory that they share.
inline void futex_wait_shared(const std::atomic<std::uint32_t>& word, std::uint32_t seen, Nanos longest) noexcept {
  timespec ts{static_cast<time_t>(longest.count() / 1'000'000'000), static_cast<long>(longest.count() % 1'000'000'000)};
  syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAIT, seen, &ts, nullptr, 0);
}

inline void futex_wake_all_shared(const std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace comex

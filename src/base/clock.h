// Monotonic time and deadlines. Fault-path safe: one vDSO call, no allocation.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace comex {

using Clock = std::chrono::steady_clock;
using Nanos = std::chrono::nanoseconds;
using Millis = std::chrono::milliseconds;

// What Clock::now() was at the kernel's last tick: some milliseconds ago at most. It is read from memory, on machines
// too where the clock is far away (an HPET: a system call and 2 us). For deadlines of what ends long before them.
inline Clock::time_point recent_now() noexcept {
  timespec tick{};
  if (::clock_gettime(CLOCK_MONOTONIC_COARSE, &tick) != 0) return Clock::now();
  return Clock::time_point(std::chrono::seconds(tick.tv_sec) + Nanos(tick.tv_nsec));
}

// A point in time after which waiting is an error. Every wait in comex takes one.
class Deadline {
 public:
  explicit Deadline(Clock::duration from_now) : at_(Clock::now() + from_now) {}
  static Deadline at(Clock::time_point when) { return Deadline(when); }

  [[nodiscard]] bool passed() const { return Clock::now() >= at_; }
  [[nodiscard]] Clock::time_point when() const { return at_; }

  // What is left, never negative, rounded up so that a poll(2) of it does not busy-loop at the end.
  [[nodiscard]] int remaining_ms() const {
    const auto left = std::chrono::ceil<Millis>(at_ - Clock::now()).count();
    if (left <= 0) return 0;
    return left > kLongestPollMs ? kLongestPollMs : static_cast<int>(left);
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  static constexpr int kLongestPollMs = 3'600'000;
  Clock::time_point at_;
};

}  // namespace comex

// Threads are numbered as they come, so that as many of them as there are lanes each have one of their own.
#pragma once

#include <atomic>

namespace comex {

inline unsigned thread_number() noexcept {
  static std::atomic<unsigned> next{0};
  thread_local const unsigned mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace comex

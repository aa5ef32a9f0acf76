// Many threads inside, or one alone: a fork must not copy the pager in the middle of anybody's work.
//
// Faults, evictions and changes of the layout happen inside. Whoever forks closes the crossing, waits until everybody
// has left, and is alone until it opens it again. A thread may enter again while it is inside: it is let through.
//
// Thread safety: that is its purpose. Fault path: yes; waiting is for the length of what others are doing inside.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/futex.h"

namespace comex::runtime {

class Crossing {
 public:
  void enter() noexcept {
    for (;;) {
      // seq_cst here and in close(): either the closer sees us inside, or we see it closed.
      inside_.fetch_add(1, std::memory_order_seq_cst);
      if (closed_.load(std::memory_order_seq_cst) == 0) return;
      leave();
      futex_wait(closed_, 1, Millis(100));
    }
  }
  void leave() noexcept {
    if (inside_.fetch_sub(1, std::memory_order_seq_cst) == 1 && closed_.load(std::memory_order_seq_cst) != 0) {
      futex_wake_all(inside_);
    }
  }
  // REQUIRES: the caller is not inside. Whoever closes second waits for the first to open.
  void close() noexcept {
    while (closed_.exchange(1, std::memory_order_seq_cst) != 0) futex_wait(closed_, 1, Millis(100));
    for (std::uint32_t count = 0; (count = inside_.load(std::memory_order_seq_cst)) != 0;) {
      futex_wait(inside_, count, Millis(1));
    }
  }
  void open() noexcept {
    closed_.store(0, std::memory_order_seq_cst);
    futex_wake_all(closed_);
  }

 private:
  std::atomic<std::uint32_t> inside_{0};
  std::atomic<std::uint32_t> closed_{0};
};

// Inside for the length of a scope. `depth` is the thread's own: how often it has entered and not left.
class Inside {
 public:
  Inside(Crossing& crossing, std::uint32_t& depth) noexcept : crossing_(crossing), depth_(depth) {
    if (depth_++ == 0) crossing_.enter();
  }
  ~Inside() {
    if (--depth_ == 0) crossing_.leave();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Crossing& crossing_;
  std::uint32_t& depth_;
};

}  // namespace comex::runtime

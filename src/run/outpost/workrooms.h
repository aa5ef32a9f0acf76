// Memory in which pages are made of others: rooms of a few pages, each in the hands of one thread while it reads and
// computes. A thread that finds all in use waits for one: the others are there for as long as a read takes.
//
// Thread safety: enter() and leave() from any thread. Fault path: both.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "pool/code.h"

namespace comex {

class Workrooms {
 public:
  static constexpr std::uint32_t kRooms = 32;
  static constexpr std::uint32_t kColumns = 16;  // that are worked on at once

  // Touched as it is needed.
  static constexpr std::size_t bytes(Code code) { return kRooms * room_bytes(code); }
  // REQUIRES: page-aligned, and as much as bytes().
  void make(std::byte* memory, Code code) noexcept {
    memory_ = memory;
    each_ = room_bytes(code);
  }
  [[nodiscard]] bool made() const noexcept { return memory_ != nullptr; }

  // code.data * kColumns pages.
  [[nodiscard]] std::byte* enter() noexcept {
    for (;; sched_yield()) {
      for (std::uint32_t i = 0; i < kRooms; ++i) {
        if (!taken_[i].load(std::memory_order_relaxed) && !taken_[i].exchange(true, std::memory_order_acquire)) {
          return memory_ + i * each_;
        }
      }
    }
  }
  void leave(const std::byte* room) noexcept {
    taken_[static_cast<std::size_t>(room - memory_) / each_].store(false, std::memory_order_release);
  }
  // In a forked child: those who were inside are not there.
  void leave_all() noexcept {
    for (auto& taken : taken_) taken.store(false, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t room_bytes(Code code) { return std::size_t{kColumns} * code.data * kPageSize; }

  std::byte* memory_ = nullptr;
  std::size_t each_ = 0;
  std::array<std::atomic<bool>, kRooms> taken_{};
};

}  // namespace comex

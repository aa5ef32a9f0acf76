// Where the mappings of a runtime go that lives in somebody else's process: to addresses of their own, if they are
// free. The kernel puts what a program maps next to what is there; so its addresses are the same from run to run only
// if what is ours, and comes when it comes, is out of the way. In all other processes the kernel chooses.
//
// Thread safety: any thread. Fault path: yes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace comex {

class OwnPlace {
 public:
  // From now on, in this process.
  static void begin() noexcept { next_.store(kFirst, std::memory_order_relaxed); }
  // For so many bytes: what to ask mmap() for. nullptr: no wish.
  static void* take(std::size_t bytes) noexcept {
    if (next_.load(std::memory_order_relaxed) == 0) return nullptr;
    const std::size_t whole = (bytes + kStep - 1) / kStep * kStep;
    return reinterpret_cast<void*>(next_.fetch_add(whole, std::memory_order_relaxed));
  }

  // Whether it may be one of those addresses.
  static bool has(std::uintptr_t address) noexcept {
    return address >= kFirst && address < next_.load(std::memory_order_relaxed);
  }

 private:
  // Below what the kernel gives to others, by 3 TiB and more; where sanitizers allow a program to have memory.
  static constexpr std::uintptr_t kFirst = 0x7c00'0000'0000;
  static constexpr std::size_t kStep = 2 << 20;  // huge pages begin at such an address

  static inline constinit std::atomic<std::uintptr_t> next_{0};
};

}  // namespace comex

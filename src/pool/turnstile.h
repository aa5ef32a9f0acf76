// Counts the threads that are inside something, so that its owner can wait until it is empty. The counts are spread
// over a few cache lines that threads mostly do not share.
//
// Thread safety: all functions from any thread. Fault path: all of them.
//
// How it is used (pool/link_gate.h, run/outpost/outpost_node.h): who comes enters, then looks whether the place is
// open, and leaves if it is not; who closes marks it closed, then looks whether anybody is inside. All four are
// sequentially consistent, so either the closer sees the thread and waits for it, or the thread sees that it is closed.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace comex {

// Threads told apart by where their stacks are: four bits. No thread-local storage, which may be allocated on first
// use, or missing on a thread that libc does not know.
inline std::size_t stack_number() noexcept {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return (here >> 16) * 0x9e3779b97f4a7c15 >> 60;
}

class Turnstile {
 public:
  static constexpr std::uint32_t kStripes = 16;  // stack_number() gives four bits
  struct alignas(64) Stripe {
    std::atomic<std::uint32_t> inside{0};
  };

  [[nodiscard]] Stripe& enter() noexcept {
    Stripe& stripe = stripes_[stack_number()];
    stripe.inside.fetch_add(1, std::memory_order_seq_cst);
    return stripe;
  }
  static void leave(Stripe& stripe) noexcept { stripe.inside.fetch_sub(1, std::memory_order_release); }
  // For those who cannot keep a reference.
  [[nodiscard]] std::uint32_t number_of(const Stripe& stripe) const noexcept {
    return static_cast<std::uint32_t>(&stripe - stripes_.data());
  }
  void leave(std::uint32_t number) noexcept { leave(stripes_[number]); }

  [[nodiscard]] bool anybody() const noexcept {
    return std::any_of(stripes_.begin(), stripes_.end(),
                       [](const Stripe& stripe) { return stripe.inside.load(std::memory_order_seq_cst) != 0; });
  }

 private:
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace comex

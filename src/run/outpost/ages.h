// Transfers of a process, told apart by when they began: before the keeper said something, or after it was heard. Who
// begins one enters the current age and only then looks at the map; who has heard the keeper begins a new age, and
// knows that nobody goes by an older look when all of the age before have left. See "Copies" in docs/design-notes.md.
//
// Thread safety: enter and leave from any thread; the rest by one at a time. Fault path: all functions.
// Part of the code inside programs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <new>

#include "pool/turnstile.h"

namespace comex {

class Ages {
 public:
  // A ticket, to leave with. All is sequentially consistent: if the age changed meanwhile it may be the end of this one
  // that is waited for.
  [[nodiscard]] std::uint32_t enter() noexcept {
    for (;;) {
      const std::uint32_t age = age_.load(std::memory_order_seq_cst);
      Turnstile& inside = inside_[age % 2];
      Turnstile::Stripe& stripe = inside.enter();
      if (age_.load(std::memory_order_seq_cst) == age) {
        return age % 2 * Turnstile::kStripes + inside.number_of(stripe);
      }
      Turnstile::leave(stripe);
    }
  }
  void leave(std::uint32_t ticket) noexcept {
    inside_[ticket / Turnstile::kStripes].leave(ticket % Turnstile::kStripes);
  }

  // REQUIRES: the age before is over.
  void begin_next() noexcept { age_.fetch_add(1, std::memory_order_seq_cst); }
  [[nodiscard]] bool is_before_over() const noexcept {
    return !inside_[(age_.load(std::memory_order_relaxed) + 1) % 2].anybody();
  }
  // In a forked child, where nothing is under way.
  void forget() noexcept { new (&inside_) std::array<Turnstile, 2>; }

 private:
  std::atomic<std::uint32_t> age_{0};
  std::array<Turnstile, 2> inside_;
};

}  // namespace comex

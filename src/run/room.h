// What the processes of a program under `comex run` share with each other and their keeper: the budget, and who has
// used how much of it. Plain words in a file in memory that the keeper makes and every process maps.
//
// A process takes an account when it starts. One that dies leaves it as it was; the keeper sees that and takes what is
// in it off the budget.
//
// Thread safety: atomics; see pager/budget.h. Fault path: yes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "pager/budget.h"
#include "run/delivery.h"

namespace comex {

struct Room {
  static constexpr std::size_t kAccounts = 4096;
  // The variable by which a process finds both: "1 NAME PATH", the keeper's socket and this file.
  static constexpr const char* kVariable = "COMEX_RUN";
  static constexpr const char* kPrefix = "1 ";

  struct Owned {
    std::atomic<std::uint32_t> pid{0};  // 0: free
    Account account;
  };

  Delivery delivery = Delivery::inline_signal;  // how processes begin
  Budget budget;
  std::array<Owned, kAccounts> accounts;

  // nullptr if there is none.
  Owned* open_account(std::uint32_t pid) noexcept {
    for (Owned& owned : accounts) {
      std::uint32_t nobody = 0;
      if (owned.pid.compare_exchange_strong(nobody, pid, std::memory_order_acq_rel)) return &owned;
    }
    return nullptr;
  }
  // REQUIRES: its process is gone.
  void close_account(Owned& owned) noexcept {
    budget.local.fetch_sub(owned.account.local.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
    owned.pid.store(0, std::memory_order_release);
  }
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace comex

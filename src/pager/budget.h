// How many pages may be local, and how many are.
//
// A Budget is for a whole tree of processes: plain words in memory that they share. Each has an Account of what it has
// used of it, so that somebody else can take that off when it dies. A Share is how one process sees both.
//
//   0 ......................... limit - ahead ....... limit
//                               |  eviction runs ahead  |  a fault that would go beyond evicts first
//
// Eviction keeps some pages free, `ahead` at most: as many as turn out to be needed, see headroom.h.
//
// Thread safety: all functions from any thread and process. Relaxed atomics: these are counts, nothing is published
// through them. Fault path: yes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "pager/headroom.h"

namespace comex {

struct Budget {
  std::atomic<std::uint64_t> limit{0};  // pages
  std::atomic<std::uint64_t> whole{0};  // ... with those that somebody else uses of it, for now; 0: nobody does
  std::atomic<std::uint64_t> ahead{0};
  std::atomic<std::uint64_t> hard{0};   // beyond it nothing goes, even if the pool takes nothing; 0: no such limit
  std::atomic<std::uint64_t> local{0};  // pages that are local now, of all processes
  std::atomic<std::uint64_t> peak{0};   // the most there ever were

  // `most_ahead`: how many pages eviction keeps free at most.
  void set(std::uint64_t pages, std::uint64_t most_ahead) noexcept {
    limit.store(pages, std::memory_order_relaxed);
    ahead.store(most_ahead < pages / 2 ? most_ahead : pages / 2, std::memory_order_relaxed);
  }
};

struct Account {
  std::atomic<std::uint64_t> local{0};  // pages of one process
  std::atomic<std::uint64_t> peak{0};
};

class Share {
 public:
  Share(Budget& budget, Account& account) noexcept : budget_(&budget), account_(&account) {}

  // Counts there from now on. REQUIRES: nobody else uses it.
  void change(Budget& budget, Account& account) noexcept {
    budget_ = &budget;
    account_ = &account;
  }
  // False, and nothing is charged, if that would go beyond the limit.
  bool try_charge(std::uint64_t pages) noexcept {
    const std::uint64_t before = budget_->local.fetch_add(pages, std::memory_order_relaxed);
    if (before + pages <= budget_->limit.load(std::memory_order_relaxed)) {
      count(before + pages, pages);
      return true;
    }
    budget_->local.fetch_sub(pages, std::memory_order_relaxed);
    return false;
  }
  void charge(std::uint64_t pages) noexcept {
    count(budget_->local.fetch_add(pages, std::memory_order_relaxed) + pages, pages);
  }
  void release(std::uint64_t pages) noexcept {
    budget_->local.fetch_sub(pages, std::memory_order_relaxed);
    account_->local.fetch_sub(pages, std::memory_order_relaxed);
  }
  // How many pages eviction should take now: 0 while there is no need.
  [[nodiscard]] std::uint64_t excess(bool running) const noexcept {
    const std::uint64_t ahead = budget_->ahead.load(std::memory_order_relaxed);
    const std::uint64_t room = headroom_.room(ahead);
    const std::uint64_t wanted = room + Headroom::depth(ahead);
    const std::uint64_t free = this->free();
    return free >= (running ? wanted : room) ? 0 : wanted - free;
  }
  // For the thread that evicts: at every turn of its work, and when it has done it.
  void work() noexcept { headroom_.turn(free()); }
  void rest() noexcept { headroom_.rest(budget_->ahead.load(std::memory_order_relaxed)); }
  [[nodiscard]] std::uint64_t limit() const noexcept { return budget_->limit.load(std::memory_order_relaxed); }
  // What buffers are made for. A process that has just woken has most of its pages elsewhere still.
  [[nodiscard]] std::uint64_t whole() const noexcept {
    return std::max(limit(), budget_->whole.load(std::memory_order_relaxed));
  }
  [[nodiscard]] bool beyond_hard() const noexcept {
    const std::uint64_t hard = budget_->hard.load(std::memory_order_relaxed);
    return hard > 0 && budget_->local.load(std::memory_order_relaxed) > hard;
  }
  // Of this process.
  [[nodiscard]] std::uint64_t local() const noexcept { return account_->local.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] std::uint64_t free() const noexcept {
    const std::uint64_t now = budget_->local.load(std::memory_order_relaxed);
    const std::uint64_t most = limit();
    return now < most ? most - now : 0;
  }
  void count(std::uint64_t all, std::uint64_t pages) noexcept {
    const std::uint64_t mine = account_->local.fetch_add(pages, std::memory_order_relaxed) + pages;
    // A peak that another thread lowers by a few pages for a moment is good enough.
    if (mine > account_->peak.load(std::memory_order_relaxed)) account_->peak.store(mine, std::memory_order_relaxed);
    if (all > budget_->peak.load(std::memory_order_relaxed)) budget_->peak.store(all, std::memory_order_relaxed);
  }

  Budget* budget_;
  Account* account_;
  Headroom headroom_;
};

}  // namespace comex

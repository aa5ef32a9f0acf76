// What the processes of a program under `comex run` share with each other and their keeper: the budget, and who has
// used how much of it. Plain words in a file in memory that the keeper makes and every process maps.
//
// A process takes an account when it starts, and is dormant: it runs as it would without comex. When the program nears
// its budget, the keeper wakes it (run/keeper/waker.h). One that dies leaves its account as it was; the keeper sees
// that and takes what is in it off the budget.
//
// Thread safety: atomics; see pager/budget.h. Fault path: yes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <new>

#include "base/units.h"
#include "pager/budget.h"
#include "pager/evict/choice.h"
#include "pager/prefetch/choice.h"
#include "pager/seal/choice.h"
#include "pager/seal/cipher.h"
#include "run/delivery.h"
#include "run/run_progress.h"
#include "run/score.h"
#include "run/tally.h"
#include "run/tuning.h"
#include "trace/ring.h"

namespace comex {

struct Room {
  static constexpr std::size_t kAccounts = 4096;
  // The variable by which a process finds both: "1 NAME PATH", the keeper's socket and this file.
  static constexpr const char* kVariable = "COMEX_RUN";
  static constexpr const char* kPrefix = "1 ";
  static constexpr const char* kFile = "comex-room";  // what the file is called

  enum class Life : std::uint32_t { dormant, waking, awake, left_alone };  // the last: dormant for good

  // Whether the kernel waits for pages of a process that another process wants to reach (runtime/neighbours.h).
  struct Waits {
    static constexpr std::uint32_t no = 0;
    static constexpr std::uint32_t asked = 1;  // to see to it
    static constexpr std::uint32_t yes = 2;
    static constexpr std::uint32_t never = 3;
  };

  struct Owned {
    std::atomic<std::uint32_t> pid{0};  // 0: free
    std::atomic<Life> life{Life::dormant};
    std::atomic<std::uint64_t> desk{0};  // of one that is dormant: the address of its PokeDesk; 0: not yet
    std::atomic<bool> asks{false};       // to be woken now, whatever it has
    Account account;
    std::atomic<std::uint32_t> docked{0};  // pages that it shares with the keeper, and that count as its own
    // A process that is awake asks the keeper to stop its other threads: the id of the thread that asks; 0: none. The
    // answer is the number of threads that were sent the signal, and one; 0: not yet.
    std::atomic<std::uint32_t> stop_for{0};
    std::atomic<std::uint32_t> stopped{0};
    std::atomic<std::uint32_t> waits{Waits::no};
    std::atomic<bool> traced{false};  // there may be faults in its ring
    Record record;
  };

  RunProgress progress;                         // first: others look for it there
  Delivery delivery = Delivery::inline_signal;  // how processes begin
  Prefetch prefetch = Prefetch::automatic;
  Evict evict = Evict::two_queues;
  Sealing sealing = Sealing::none;
  CipherKey key;  // if pages leave encrypted
  Tuning tuning;
  Budget budget;
  std::atomic<std::uint32_t> keeper{0};   // its process id
  std::atomic<bool> at_once{false};       // processes wake as they start, by themselves
  std::atomic<bool> old_kernel{false};    // they use nothing that Linux 6.1 has not
  std::atomic<std::uint32_t> request{0};  // counts what processes ask of the keeper; it sleeps on this word
  std::atomic<std::uint32_t> used{0};     // no account beyond this index was ever opened
  std::atomic<bool> told{false};          // a process has said that the keeper is gone: one is enough
  std::atomic<std::uint32_t> wrong{0};    // times that a process has said that a page was wrong, and mended
  // When the trace began, in ns of Clock; 0: there is neither a trace nor a profile. If there is, a ring for each
  // account (trace/ring.h) follows in the file, on the next page, and then the score (run/score.h).
  std::atomic<std::uint64_t> trace_start{0};
  std::array<std::atomic<bool>, Profile::kMostProcesses> played;  // parts of the score that a process has taken
  union {
    std::array<Owned, kAccounts> accounts;
  };

  static constexpr std::size_t rings_at() { return (sizeof(Room) + kPageSize - 1) / kPageSize * kPageSize; }
  static constexpr std::size_t score_at() { return rings_at() + kAccounts * sizeof(TraceRing); }
  static constexpr std::size_t bytes(bool traced) { return traced ? score_at() + Score::kMostBytes : sizeof(Room); }

  Room() { new (&accounts) std::array<Owned, kAccounts>; }
  // In memory that is all zeros: so is a free account, and megabytes of them need not be touched.
  struct InZeros {};
  explicit Room(InZeros) {}

  // What the pagers of all processes may use: `pages`, less those that are used `elsewhere`, but a part in any case.
  void set_budget(std::uint64_t pages, std::uint64_t elsewhere) noexcept {
    constexpr std::uint64_t kLeastShare = 4;  // one in so many
    constexpr std::uint64_t kAhead = 4096;    // pages that eviction keeps free at most: 16 MiB
    constexpr std::uint64_t kAheadShare = 8;  // ... and of a small budget one in so many
    const std::uint64_t least = pages / kLeastShare;
    const std::uint64_t left = pages > elsewhere + least ? pages - elsewhere : least;
    budget.set(left, std::min(left / kAheadShare, kAhead));
    budget.whole.store(pages, std::memory_order_relaxed);
  }

  // For a process that begins: after exec it is a new program with the account of the old one. nullptr if there is
  // none.
  Owned* open_account(std::uint32_t pid) noexcept {
    if (Owned* const mine = find(pid)) {
      clear(*mine);
      return mine;
    }
    for (std::uint32_t i = 0; i < kAccounts; ++i) {
      std::uint32_t nobody = 0;
      if (!accounts[i].pid.compare_exchange_strong(nobody, pid, std::memory_order_acq_rel)) continue;
      std::uint32_t seen = used.load(std::memory_order_relaxed);
      while (seen <= i && !used.compare_exchange_weak(seen, i + 1, std::memory_order_acq_rel)) {
      }
      return &accounts[i];
    }
    return nullptr;
  }
  // nullptr if there is none.
  Owned* find(std::uint32_t pid) noexcept {
    const std::uint32_t last = used.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < last; ++i) {
      if (accounts[i].pid.load(std::memory_order_acquire) == pid) return &accounts[i];
    }
    return nullptr;
  }
  // Whether another process may share so many pages with the keeper: all together a quarter of the budget.
  [[nodiscard]] bool may_dock(std::uint64_t pages) const noexcept {
    constexpr std::uint64_t kShare = 4;
    const std::uint32_t last = used.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < last; ++i) pages += accounts[i].docked.load(std::memory_order_relaxed);
    return pages <= std::max(budget.limit.load(), budget.whole.load()) / kShare;
  }
  // REQUIRES: its process is gone.
  void close_account(Owned& owned) noexcept {
    clear(owned);
    owned.account.peak.store(0, std::memory_order_relaxed);
    owned.record.clear();
    owned.pid.store(0, std::memory_order_release);
  }

 private:
  void clear(Owned& owned) noexcept {
    budget.local.fetch_sub(owned.account.local.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
    owned.desk.store(0, std::memory_order_relaxed);
    owned.asks.store(false, std::memory_order_relaxed);
    owned.life.store(Life::dormant, std::memory_order_relaxed);
    owned.docked.store(0, std::memory_order_relaxed);
    owned.stop_for.store(0, std::memory_order_relaxed);
    owned.stopped.store(0, std::memory_order_relaxed);
    owned.waits.store(Waits::no, std::memory_order_relaxed);
  }
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace comex

#include "run/runtime/evictor.h"

#include <algorithm>

#include "base/futex.h"
#include "run/runtime/neighbours.h"
#include "run/runtime/process.h"
#include "run/runtime/signals.h"

namespace comex::runtime {
namespace {

constexpr std::uint64_t kPagesAtOnce = 256;  // then a look at what has arrived
constexpr int kTidyRounds = 4;               // when there is nothing else to do
constexpr Millis kNap{20};                   // the longest that frames and messages go without a look
constexpr std::uint32_t kLongestPause = 32;  // naps: a good half second

[[noreturn]] void evict_for_ever(void*) {
  Pager& pager = *process.pager;
  bool running = false;
  std::uint32_t depth = 0;
  std::uint32_t pause = 0;  // while no node takes pages: naps between two tries, and how many are left
  std::uint32_t naps = 0;
  for (;;) {
    const std::uint32_t turn = process.evictor_turn.load(std::memory_order_acquire);
    const std::uint64_t excess = process.budget->excess(running);
    {
      const Inside inside(process.crossing, depth);
      const bool due = excess > 0 && naps == 0;
      if (due) process.budget->work();
      running = due && pager.evict(std::min(excess, kPagesAtOnce)) > 0;
      if (due) naps = pause = pager.full() && !running ? std::clamp(2 * pause, 1U, kLongestPause) : 0;
      for (int round = 0; round < (running ? 1 : kTidyRounds); ++round) pager.tidy();
      pager.progress();
      process.outpost->tend();
      if (!running) pager.staging().flush();
    }
    if (process.outpost->keeper_gone()) stop_without_keeper();
    answer_neighbours();
    // A process that was dormant may have gone beyond it without a fault.
    if (pager.full() && process.budget->beyond_hard()) stop_at_hard_limit();
    naps = naps > 0 && pager.full() ? naps - 1 : 0;
    if (running) continue;
    process.budget->rest();
    signals.end_if_asked();
    process.evictor_asleep.store(true, std::memory_order_seq_cst);
    // After saying so: whoever made work before will not wake us.
    if (process.budget->excess(false) == 0 || excess > 0) futex_wait(process.evictor_turn, turn, kNap);
    process.evictor_asleep.store(false, std::memory_order_relaxed);
  }
}

}  // namespace

bool start_evictor() noexcept {
  return process.own_threads.start(&evict_for_ever, nullptr) == Errc::ok;
}

void wake_evictor() noexcept {
  if (!process.evictor_asleep.load(std::memory_order_seq_cst) || process.budget->excess(false) == 0) return;
  if (process.pager->full()) return;  // it looks by itself now and then
  if (!process.evictor_asleep.exchange(false, std::memory_order_relaxed)) return;
  process.evictor_turn.fetch_add(1, std::memory_order_release);
  futex_wake_one(process.evictor_turn);
}

}  // namespace comex::runtime

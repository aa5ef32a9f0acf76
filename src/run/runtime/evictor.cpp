#include "run/runtime/evictor.h"

#include <algorithm>

#include "base/futex.h"
#include "run/runtime/process.h"

namespace comex::runtime {
namespace {

constexpr std::uint64_t kPagesAtOnce = 256;  // then a look at what has arrived
constexpr Millis kNap{20};                   // the longest that frames and messages go without a look

[[noreturn]] void evict_for_ever(void*) {
  Pager& pager = *process.pager;
  bool running = false;
  std::uint32_t depth = 0;
  for (;;) {
    const std::uint32_t turn = process.evictor_turn.load(std::memory_order_acquire);
    const std::uint64_t excess = process.budget->excess(running);
    {
      const Inside inside(process.crossing, depth);
      running = excess > 0 && pager.evict(std::min(excess, kPagesAtOnce)) > 0;
      pager.progress();
      process.outpost->tend();
      if (!running) pager.staging().flush();
    }
    if (running) continue;
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
  if (!process.evictor_asleep.exchange(false, std::memory_order_relaxed)) return;
  process.evictor_turn.fetch_add(1, std::memory_order_release);
  futex_wake_one(process.evictor_turn);
}

}  // namespace comex::runtime

#include "run/runtime/world.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/futex.h"
#include "run/poke_value.h"
#include "run/runtime/deputy.h"
#include "run/runtime/evictor.h"
#include "run/runtime/gate_entry.h"
#include "run/runtime/lasting.h"
#include "run/runtime/numbers.h"
#include "run/runtime/process.h"
#include "run/runtime/tasks.h"

namespace comex::runtime {
namespace {

constexpr Millis kLookAgain{100};
constexpr std::chrono::seconds kStopPatience{10};
constexpr std::chrono::seconds kAskPatience{2};

// Until the word is so.
template <typename Predicate>
void wait_until(const std::atomic<std::uint32_t>& word, Predicate&& so) noexcept {
  for (std::uint32_t now = 0; !so(now = word.load(std::memory_order_acquire));) futex_wait(word, now, kLookAgain);
}

void count(std::atomic<std::uint32_t>& word) noexcept {
  word.fetch_add(1, std::memory_order_acq_rel);
  futex_wake_all(word);
}

Standing here() noexcept {
  Standing standing;
  standing.stack = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  standing.thread_pointer = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
  standing.thread = static_cast<std::uint32_t>(gettid());
  standing.main = gettid() == getpid();
  stack_t other{};
  if (sigaltstack(nullptr, &other) == 0 && (other.ss_flags & SS_DISABLE) == 0) {
    standing.signal_stack = reinterpret_cast<std::uint64_t>(other.ss_sp);
    standing.signal_stack_end = standing.signal_stack + other.ss_size;
  }
  return standing;
}

// By its thread-local storage.
bool is_own_thread() noexcept {
  const auto pointer = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
  return process.own.owns(pointer, pointer + 1);
}

// Looks which of them have other descriptors than this thread (unshare); whether there are any. Where the kernel does
// not say, there are none.
bool find_apart(Standing* threads) noexcept {
  bool any = false;
  for (Standing* one = threads; one != nullptr; one = one->next) {
    one->apart = syscall(SYS_kcmp, gettid(), static_cast<pid_t>(one->thread), KCMP_FILES, 0, 0) > 0;
    any = any || one->apart;
  }
  return any;
}

// What it has inherited blocked. In others the keeper has opened it.
void open_ours(ThreadState& state) noexcept {
  std::uint64_t mask = 0;
  comex_gate_call(SYS_rt_sigprocmask, SIG_BLOCK, 0, reinterpret_cast<std::uint64_t>(&mask), sizeof mask, 0, 0);
  state.blocked = mask & Signals::kOurs;
  if (state.blocked != 0) Signals::block(Signals::open(mask));
}

}  // namespace

constinit World world;

void World::set_phase(Phase phase) noexcept {
  phase_.store(phase, std::memory_order_release);
  futex_wake_all(phase_);
}

bool World::come(const siginfo_t& info, ucontext_t& frame) noexcept {
  const auto value = reinterpret_cast<std::uint64_t>(info.si_value.sival_ptr);
  if (info.si_code != SI_QUEUE || !PokeValue::is(value)) return false;
  const int error = errno;
  ThreadState* const state = this_thread();
  if (process.owned->life.load(std::memory_order_acquire) != Room::Life::awake) {
    // What the keeper has opened is found so by who takes the thread over.
    if ((value & PokeValue::kBusBlocked) != 0) mask_of(frame) |= std::uint64_t{1} << (SIGBUS - 1);
    if ((value & PokeValue::kSysBlocked) != 0) mask_of(frame) |= std::uint64_t{1} << (SIGSYS - 1);
    wake(PokeValue::threads(value));
  } else {
    const std::uint8_t before = state != nullptr ? state->selector : 0;
    if (state != nullptr) state->selector = 0;
    count(came_);
    wait_until(phase_, [](std::uint32_t now) { return now == running; });
    if (state != nullptr) state->selector = before;
    // The keeper has opened it, to be able to call. The frame would leave it so.
    if (is_own_thread()) mask_of(frame) = ~std::uint64_t{0};
  }
  errno = error;
  return true;
}

void World::wake(std::uint32_t expected, bool alone) noexcept {
  Standing mine = here();
  mine.next = standings_.load(std::memory_order_relaxed);
  while (!standings_.compare_exchange_weak(mine.next, &mine, std::memory_order_acq_rel)) {
  }
  if (came_.fetch_add(1, std::memory_order_acq_rel) + 1 == expected) appoint(mine);
  wait_until(came_, [&](std::uint32_t now) { return now > expected; });
  const bool leads = leader_.load(std::memory_order_acquire) == &mine;
  if (leads) prepare_process(standings_.load(std::memory_order_acquire));
  if (!leads) wait_until(phase_, [](std::uint32_t now) { return now != gathering; });
  ThreadState* const state = process.threads->enter(static_cast<std::uint32_t>(gettid()));
  if (state == nullptr) runtime::stop("too many threads");
  state->apart = state->bare = state->beside = mine.apart;
  arm(*state);
  if (leads) {
    // Others may need one to arm themselves.
    const bool needed = find_apart(standings_.load(std::memory_order_acquire));
    if (needed && !deputy.start()) runtime::stop("cannot start a thread");
    set_phase(prepared);
  }
  leave_registered_alone();
  count(ready_);
  if (leads) {
    wait_until(ready_, [&](std::uint32_t now) { return now == expected; });
    if (!start_evictor()) runtime::stop("cannot start a thread");
    process.owned->life.store(Room::Life::awake, std::memory_order_release);
    set_phase(running);
  }
  wait_until(phase_, [](std::uint32_t now) { return now == running; });
  if (alone) open_ours(*state);
  state->selector = 1;
}

void World::ask_to_wake() noexcept {
  Room::Owned& owned = *process.owned;
  owned.asks.store(true, std::memory_order_release);
  process.room->request.fetch_add(1, std::memory_order_release);
  futex_wake_all_shared(process.room->request);
  const Deadline patience(kAskPatience);
  const Deadline keeper_is_gone(kStopPatience);
  for (;;) {
    auto life = owned.life.load(std::memory_order_acquire);
    if (life == Room::Life::awake || life == Room::Life::left_alone) return;
    const bool over = life == Room::Life::dormant && patience.passed();
    if (over && owned.life.compare_exchange_strong(life, Room::Life::left_alone, std::memory_order_acq_rel)) return;
    if (keeper_is_gone.passed()) return;
    const timespec nap{0, 200'000};
    nanosleep(&nap, nullptr);
  }
}

// The main thread has the most room on its stack; any other will do if it has ended.
void World::appoint(Standing& last) noexcept {
  Standing* leader = &last;
  for (Standing* one = standings_.load(std::memory_order_acquire); one != nullptr; one = one->next) {
    if (one->main) leader = one;
  }
  leader_.store(leader, std::memory_order_release);
  count(came_);  // one more than there are: all have come
}

bool World::stop() noexcept {
  Room::Owned& owned = *process.owned;
  // The keeper could not tell it from those that are to be stopped.
  const std::uint32_t self = numbers.of_this_thread();
  if (self == 0) return false;
  process.crossing.close();
  came_.store(0, std::memory_order_relaxed);
  phase_.store(gathering, std::memory_order_release);
  owned.stopped.store(0, std::memory_order_relaxed);
  owned.stop_for.store(self, std::memory_order_release);
  process.room->request.fetch_add(1, std::memory_order_release);
  futex_wake_all_shared(process.room->request);
  const Deadline patience(kStopPatience);
  std::uint32_t stopped = 0;
  while ((stopped = owned.stopped.load(std::memory_order_acquire)) == 0) {
    if (patience.passed()) {
      owned.stop_for.store(0, std::memory_order_release);
      go();
      return false;
    }
    futex_wait_shared(owned.stopped, 0, kLookAgain);
  }
  wait_until(came_, [&](std::uint32_t now) { return now + 1 >= stopped; });
  return true;
}

void World::go() noexcept {
  set_phase(running);
  process.crossing.open();
}

}  // namespace comex::runtime

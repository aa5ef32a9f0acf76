#include "run/runtime/world.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/futex.h"
#include "run/poke_value.h"
#include "run/runtime/evictor.h"
#include "run/runtime/lasting.h"
#include "run/runtime/process.h"
#include "run/runtime/tasks.h"

namespace comex::runtime {
namespace {

constexpr Millis kLookAgain{100};
constexpr std::chrono::seconds kStopPatience{10};

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
  standing.main = gettid() == getpid();
  stack_t other{};
  if (sigaltstack(nullptr, &other) == 0 && (other.ss_flags & SS_DISABLE) == 0) {
    standing.signal_stack = reinterpret_cast<std::uint64_t>(other.ss_sp);
    standing.signal_stack_end = standing.signal_stack + other.ss_size;
  }
  return standing;
}

}  // namespace

constinit World world;

void World::set_phase(Phase phase) noexcept {
  phase_.store(phase, std::memory_order_release);
  futex_wake_all(phase_);
}

bool World::come(const siginfo_t& info) noexcept {
  const auto value = reinterpret_cast<std::uint64_t>(info.si_value.sival_ptr);
  if (info.si_code != SI_QUEUE || !PokeValue::is(value)) return false;
  const int error = errno;
  ThreadState* const state = this_thread();
  if (process.owned->life.load(std::memory_order_acquire) != Room::Life::awake) {
    wake(PokeValue::threads(value));
  } else {
    const std::uint8_t before = state != nullptr ? state->selector : 0;
    if (state != nullptr) state->selector = 0;
    count(came_);
    wait_until(phase_, [](std::uint32_t now) { return now == running; });
    if (state != nullptr) state->selector = before;
  }
  errno = error;
  return true;
}

void World::wake(std::uint32_t expected) noexcept {
  Standing mine = here();
  mine.next = standings_.load(std::memory_order_relaxed);
  while (!standings_.compare_exchange_weak(mine.next, &mine, std::memory_order_acq_rel)) {
  }
  if (came_.fetch_add(1, std::memory_order_acq_rel) + 1 == expected) appoint(mine);
  wait_until(came_, [&](std::uint32_t now) { return now > expected; });
  const bool leads = leader_.load(std::memory_order_acquire) == &mine;
  if (leads) {
    prepare_process(standings_.load(std::memory_order_acquire));
    set_phase(prepared);
  }
  wait_until(phase_, [](std::uint32_t now) { return now != gathering; });
  ThreadState* const state = process.threads->enter(static_cast<std::uint32_t>(gettid()));
  if (state == nullptr) runtime::stop("too many threads");
  arm(*state);
  leave_registered_alone();
  count(ready_);
  if (leads) {
    wait_until(ready_, [&](std::uint32_t now) { return now == expected; });
    if (!start_evictor()) runtime::stop("cannot start a thread");
    process.owned->life.store(Room::Life::awake, std::memory_order_release);
    set_phase(running);
  }
  wait_until(phase_, [](std::uint32_t now) { return now == running; });
  state->selector = 1;
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
  process.crossing.close();
  came_.store(0, std::memory_order_relaxed);
  phase_.store(gathering, std::memory_order_release);
  owned.stopped.store(0, std::memory_order_relaxed);
  owned.stop_for.store(static_cast<std::uint32_t>(gettid()), std::memory_order_release);
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

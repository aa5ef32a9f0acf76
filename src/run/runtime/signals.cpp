#include "run/runtime/signals.h"

#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "run/runtime/delivery.h"
#include "run/runtime/direct.h"
#include "run/runtime/gate_entry.h"
#include "run/runtime/process.h"
#include "run/runtime/program_memory.h"

namespace comex::runtime {
namespace {

constexpr std::uint64_t kRestorer = 0x04000000;  // SA_RESTORER

std::int64_t kernel_action(int signal, const KernelAction* next, KernelAction* previous) {
  return comex_gate_call(SYS_rt_sigaction, static_cast<std::uint64_t>(signal), reinterpret_cast<std::uint64_t>(next),
                         reinterpret_cast<std::uint64_t>(previous), sizeof(std::uint64_t), 0, 0);
}

siginfo_t& kept_info(ThreadState& state, int signal) noexcept {
  return state.kept_info[signal == SIGBUS ? 0 : 1];
}

// The call is not made if it has not begun; the kernel goes back to its instruction if it is to be made again.
void leave_call(ucontext_t& frame) noexcept {
  greg_t& at = frame.uc_mcontext.gregs[REG_RIP];
  if (at < reinterpret_cast<greg_t>(comex_wait_check) || at > reinterpret_cast<greg_t>(comex_wait_call)) return;
  at = reinterpret_cast<greg_t>(comex_wait_abort);
}

void send_to_self(int signal, siginfo_t& info) noexcept {
  const auto process = static_cast<std::uint64_t>(comex_gate_call(SYS_getpid, 0, 0, 0, 0, 0, 0));
  const auto self = static_cast<std::uint64_t>(comex_gate_call(SYS_gettid, 0, 0, 0, 0, 0, 0));
  comex_gate_call(SYS_rt_tgsigqueueinfo, process, self, static_cast<std::uint64_t>(signal),
                  reinterpret_cast<std::uint64_t>(&info), 0, 0);
}

// Gives the process a signal again that this thread has got, which has everything blocked.
void send_to_process(int signal, siginfo_t& info) noexcept {
  const auto process = static_cast<std::uint64_t>(comex_gate_call(SYS_getpid, 0, 0, 0, 0, 0, 0));
  const std::int64_t sent = comex_gate_call(SYS_rt_sigqueueinfo, process, static_cast<std::uint64_t>(signal),
                                            reinterpret_cast<std::uint64_t>(&info), 0, 0, 0);
  // Who sent it with kill() is told by the kernel alone.
  if (sent < 0) comex_gate_call(SYS_kill, process, static_cast<std::uint64_t>(signal), 0, 0, 0, 0);
}

// Somebody has sent the process a signal while the keeper has the runtime's own threads open for its own (World::come).
void pass_on(int signal, siginfo_t& info, ucontext_t& frame) noexcept {
  Signals::block(Signals::kEverything);
  mask_of(frame) = Signals::kEverything;
  send_to_process(signal, info);
}

}  // namespace

constinit Signals signals;

bool Signals::calls(const KernelAction& action) noexcept {
  return action.handler != reinterpret_cast<void*>(SIG_DFL) && action.handler != reinterpret_cast<void*>(SIG_IGN);
}

void Signals::block(std::uint64_t mask) noexcept {
  comex_gate_call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<std::uint64_t>(&mask), 0, sizeof mask, 0, 0);
}

// Everything else waits while we work: a handler of the program must not find our locks held by its own thread.
KernelAction Signals::ours(Handler handler, std::uint64_t flags, std::uint64_t mask) noexcept {
  return KernelAction{reinterpret_cast<void*>(handler), SA_SIGINFO | kRestorer | flags,
                      reinterpret_cast<void*>(&comex_gate_restorer), mask};
}

const PokeDesk& Signals::expect(Handler poke) noexcept {
  // Not on another stack: what is registered is the program's, and may be small.
  desk_.open(reinterpret_cast<std::uint64_t>(comex_gate_instruction), ours(poke, 0, kButFaults));
  return desk_;
}

void Signals::arrive_dormant(const siginfo_t& info) noexcept {
  if (!calls(desk_.found)) return act_by_default(SIGSYS, info, desk_.found.handler == reinterpret_cast<void*>(SIG_IGN));
  // For the program's handler, as soon as this one, which has it blocked, has returned.
  (void)kernel_action(SIGSYS, &desk_.found, nullptr);
  siginfo_t again = info;
  send_to_self(SIGSYS, again);
}

void Signals::begin(Handler faults, Handler calls_handler) noexcept {
  for (int signal = 1; signal <= kSignals; ++signal) {
    const bool ours = (bit(signal) & kOurs) != 0;
    if (ours || kernel_action(signal, nullptr, &actions_[signal]) < 0) continue;
    if (calls(actions_[signal])) (void)install(signal, actions_[signal]);
  }
  const KernelAction for_faults = ours(faults, SA_ONSTACK, kEverything);
  (void)kernel_action(SIGBUS, &for_faults, &actions_[SIGBUS]);
  const KernelAction for_calls = ours(calls_handler, SA_ONSTACK, kButFaults);
  KernelAction before;
  (void)kernel_action(SIGSYS, &for_calls, &before);
  // A process that wakes as it begins has expected nothing. In another the handler is the one of the desk, and what the
  // program has set since expect() was found when the keeper put it there.
  if (desk_.mark != PokeDesk::kMark) {
    actions_[SIGSYS] = before;
  } else if (desk_.found.handler != desk_.ours.handler) {
    actions_[SIGSYS] = desk_.found;
  }
}

std::int64_t Signals::install(int signal, const KernelAction& action) noexcept {
  KernelAction ours = action;
  if (calls(action)) {
    ours.handler = reinterpret_cast<void*>(&on_signal);
    ours.flags |= SA_SIGINFO | SA_ONSTACK | kRestorer;
    ours.restorer = reinterpret_cast<void*>(&comex_gate_restorer);
    ours.mask = kEverything;
  }
  return kernel_action(signal, &ours, nullptr);
}

void Signals::reset(int signal) noexcept {
  const KernelAction plain{};
  (void)kernel_action(signal, &plain, nullptr);
}

std::int64_t Signals::action(int signal, std::uint64_t next, std::uint64_t previous) noexcept {
  KernelAction after;
  if (next != 0 && !copy_in(next, &after, sizeof after)) return -EFAULT;
  const bool fixed = signal == SIGKILL || signal == SIGSTOP;
  if (signal < 1 || signal > kSignals || (fixed && next != 0)) return -EINVAL;
  const ThreadState& state = *this_thread();
  KernelAction before;
  {
    const auto lock = lock_for(state);
    KernelAction& there = actions_of(state)[signal];
    before = there;
    if (next != 0) {
      const bool ours = (bit(signal) & kOurs) != 0;
      if (const std::int64_t result = ours ? 0 : install(signal, after); result < 0) return result;
      there = after;
      std::atomic_thread_fence(std::memory_order_seq_cst);  // see expect_filters()
      if (signal == SIGSYS && calls(after) && process.filtered.load(std::memory_order_relaxed)) forbid_direct();
    }
  }
  return previous == 0 || copy_out(previous, &before, sizeof before) ? 0 : -EFAULT;
}

// A task that has its own may be killed at any time, and the mutex is that of the process.
std::unique_lock<Mutex> Signals::lock_for(const ThreadState& state) noexcept {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (state.actions == nullptr) lock.lock();
  return lock;
}

KernelAction* Signals::actions_of(const ThreadState& state) noexcept {
  return state.actions != nullptr ? state.actions : actions_;
}

bool Signals::begin_own(ThreadState& child, const ThreadState& maker) noexcept {
  // The last owner of the state may have shared them with one that lives on.
  if (child.own_actions == nullptr || process.threads->anybody_has(child.own_actions)) {
    child.own_actions = reinterpret_cast<KernelAction*>(process.own.take(sizeof actions_));
    if (child.own_actions == nullptr) return false;
  }
  const auto lock = lock_for(maker);
  std::memcpy(child.own_actions, actions_of(maker), sizeof actions_);
  child.actions = child.own_actions;
  return true;
}

void Signals::adopt(ThreadState& state) noexcept {
  if (state.actions == nullptr) return;
  std::memcpy(actions_, state.actions, sizeof actions_);
  state.actions = nullptr;
}

void Signals::ignore(std::uint64_t ignored) noexcept {
  KernelAction action;
  action.handler = reinterpret_cast<void*>(SIG_IGN);
  for (const int signal : {SIGBUS, SIGSYS}) {
    if ((ignored & bit(signal)) != 0) (void)kernel_action(signal, &action, nullptr);
  }
}

void Signals::set_mask(ThreadState& state, ucontext_t& frame, std::uint64_t mask) noexcept {
  mask_of(frame) = open(mask);
  state.blocked = mask & kOurs;
}

std::int64_t Signals::mask(int how, std::uint64_t next, std::uint64_t previous, ucontext_t& frame) noexcept {
  ThreadState& state = *this_thread();
  const std::uint64_t before = mask_of(frame) | state.blocked;
  std::uint64_t wanted = 0;
  if (next != 0) {
    if (!copy_in(next, &wanted, sizeof wanted)) return -EFAULT;
    switch (how) {
      case SIG_BLOCK: set_mask(state, frame, before | wanted); break;
      case SIG_UNBLOCK: set_mask(state, frame, before & ~wanted); break;
      case SIG_SETMASK: set_mask(state, frame, wanted); break;
      default: return -EINVAL;
    }
  }
  return previous == 0 || copy_out(previous, &before, sizeof before) ? 0 : -EFAULT;
}

void Signals::act_by_default(int signal, const siginfo_t& info, bool ignored) noexcept {
  const bool sent = info.si_code <= 0;
  if (sent && ignored) return;
  reset(signal);
  // A fault happens again; a call that a filter of the program's has stopped (seccomp) does not.
  if (sent || signal == SIGSYS) {
    const auto self = static_cast<std::uint64_t>(comex_gate_call(SYS_gettid, 0, 0, 0, 0, 0, 0));
    comex_gate_call(SYS_tkill, self, static_cast<std::uint64_t>(signal), 0, 0, 0, 0);
  }
}

void Signals::end_if_asked() noexcept {
  constexpr std::uint64_t kHarmless = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) |
                                      bit(SIGTTOU) | bit(SIGURG) | bit(SIGWINCH);
  std::uint64_t asked = 0;
  if (comex_gate_call(SYS_rt_sigpending, reinterpret_cast<std::uint64_t>(&asked), sizeof asked, 0, 0, 0, 0) < 0) return;
  asked &= ~kHarmless;
  // What the program has blocked in all its threads waits for it, not for us.
  if (asked == 0 || (asked &= process.threads->open_signals()) == 0) return;
  const std::lock_guard lock(mutex_);
  for (int signal = 1; signal <= kSignals; ++signal) {
    if (actions_[signal].handler != reinterpret_cast<void*>(SIG_DFL)) asked &= ~bit(signal);
  }
  for (const int signal : {SIGBUS, SIGSYS}) {
    if ((asked & bit(signal)) != 0) reset(signal);
  }
  // No handler can come in between: the process ends here, or the signal was somebody else's after all.
  for (const int how : {SIG_UNBLOCK, SIG_BLOCK}) {
    comex_gate_call(SYS_rt_sigprocmask, static_cast<std::uint64_t>(how), reinterpret_cast<std::uint64_t>(&asked), 0,
                    sizeof asked, 0, 0);
  }
}

// A second one is dropped, as the kernel does it.
void Signals::keep(ThreadState& state, int signal, const siginfo_t& info) noexcept {
  if ((state.kept.load(std::memory_order_relaxed) & bit(signal)) != 0) return;
  kept_info(state, signal) = info;
  state.kept.fetch_or(bit(signal), std::memory_order_relaxed);
}

// What is aside gives way, and comes later.
void Signals::keep_aside(ThreadState& state) noexcept {
  const Arrival& aside = state.aside;
  if ((bit(aside.signal) & kOurs) == 0) return;
  if ((aside.action.flags & SA_RESETHAND) != 0) actions_of(state)[aside.signal] = aside.action;
  keep(state, aside.signal, aside.info);
}

void Signals::arrive(int signal, const siginfo_t& info, ucontext_t& frame, bool inside) noexcept {
  ThreadState& state = *this_thread();
  const bool ours = (bit(signal) & kOurs) != 0;
  const bool sent = info.si_code <= 0;
  const std::uint64_t blocked = inside && state.waiting ? state.wait_mask : state.blocked;
  if (ours && sent && (blocked & bit(signal)) != 0) {
    state.cut_short = state.waiting;
    return keep(state, signal, info);
  }
  KernelAction& action = actions_of(state)[signal];
  Arrival arrival;
  arrival.signal = signal;
  arrival.info = info;
  arrival.action = action;
  if (!calls(arrival.action)) {
    // Of another: the action was changed while the signal was on its way.
    if (ours) act_by_default(signal, info, arrival.action.handler == reinterpret_cast<void*>(SIG_IGN));
    return;
  }
  if (ours && sent && state.aside.signal != 0) return keep(state, signal, info);  // that one is first
  if ((arrival.action.flags & SA_RESETHAND) != 0) action = KernelAction{};
  // Code of ours is no place for a handler of the program's. Only SIGBUS gets here, or what the keeper has let in.
  if (!inside && !state.waiting) return deliver(state, arrival, frame, nullptr);
  if (state.aside.signal != 0) keep_aside(state);  // this one does not wait: it is of a filter
  state.aside = arrival;
  if (!state.waiting) return;
  state.aside_masked = !inside;  // a direct call
  state.aside_mask = mask_of(frame);
  mask_of(frame) = inside ? kButFaults : open(kEverything);
  leave_call(frame);
}

void Signals::deliver_kept(ThreadState& state, ucontext_t& frame) noexcept {
  for (const int signal : {SIGBUS, SIGSYS}) {
    if ((state.kept.load(std::memory_order_relaxed) & ~state.blocked & bit(signal)) == 0) continue;
    const siginfo_t info = kept_info(state, signal);
    state.kept.fetch_and(~bit(signal), std::memory_order_relaxed);
    arrive(signal, info, frame, false);
  }
}

void Signals::give_kept_to_kernel(ThreadState& state) noexcept {
  const std::uint64_t kept = state.kept.exchange(0, std::memory_order_relaxed);
  for (const int signal : {SIGBUS, SIGSYS}) {
    if ((kept & bit(signal)) != 0) send_to_self(signal, kept_info(state, signal));
  }
}

void Signals::pass_kept_on(ThreadState& state) noexcept {
  const std::uint64_t kept = state.kept.exchange(0, std::memory_order_relaxed);
  for (const int signal : {SIGBUS, SIGSYS}) {
    siginfo_t& info = kept_info(state, signal);
    const bool for_process = info.si_code == SI_USER || info.si_code == SI_QUEUE;
    if ((kept & bit(signal)) != 0 && for_process) send_to_process(signal, info);
  }
}

bool is_in_our_code(std::uint8_t selector, const ucontext_t& frame) noexcept {
  return selector == 0 ||
         process.threads->standing_on(reinterpret_cast<const void*>(frame.uc_mcontext.gregs[REG_RSP])) != nullptr;
}

// The kernel keeps one SIGSYS for a thread. If another was sent by the time a call is stopped, that one comes alone,
// and the call has not been made.
void set_back_unmade(const ThreadState* state, ucontext_t& frame) noexcept {
  greg_t& at = frame.uc_mcontext.gregs[REG_RIP];
  if (!is_after_call(frame) || state == nullptr || !state->gated || is_in_our_code(state->selector, frame)) return;
  const bool is_let_through =
      at >= reinterpret_cast<greg_t>(comex_gate_begin) && at <= reinterpret_cast<greg_t>(comex_gate_end);
  if (!is_let_through) at -= kCallBytes;
}

void on_signal(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  ThreadState* const state = this_thread();
  auto& frame = *static_cast<ucontext_t*>(context);
  // The program's handler is for its own threads.
  if (state == nullptr) {
    if (info->si_code > 0) stop("a thread of comex failed");
    pass_on(signal, *info, frame);
    errno = error;
    return;
  }
  set_back_unmade(state, frame);
  const std::uint8_t before = state->selector;
  state->selector = 0;
  const bool inside = is_in_our_code(before, frame);
  // The gate has faults open, also when it is entered for a signal: another must not come while this one is put aside.
  if (signal == SIGSYS) Signals::block(Signals::kEverything);
  const bool of_program = !inside && !state->waiting;
  if (of_program) {
    use_stack_from(*state, frame);
    restore_mask(*state, frame);
  }
  signals.arrive(signal, *info, frame, inside);
  if (of_program) deliver_aside(*state, frame);
  state->selector = before;
  errno = error;
}

}  // namespace comex::runtime

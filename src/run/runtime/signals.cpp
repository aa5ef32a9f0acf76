#include "run/runtime/signals.h"

#include <sys/syscall.h>

#include <cerrno>
#include <mutex>

#include "run/runtime/delivery.h"
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

// The call is not made if it has not begun; the kernel goes back to its instruction if it is to be made again.
void leave_call(ucontext_t& frame) noexcept {
  greg_t& at = frame.uc_mcontext.gregs[REG_RIP];
  if (at < reinterpret_cast<greg_t>(comex_wait_check) || at > reinterpret_cast<greg_t>(comex_wait_call)) return;
  at = reinterpret_cast<greg_t>(comex_wait_abort);
}

}  // namespace

constinit Signals signals;

bool Signals::calls(const KernelAction& action) noexcept {
  return action.handler != reinterpret_cast<void*>(SIG_DFL) && action.handler != reinterpret_cast<void*>(SIG_IGN);
}

// Everything else waits while we work: a handler of the program must not find our locks held by its own thread.
KernelAction Signals::ours(Handler handler, std::uint64_t flags) noexcept {
  return KernelAction{reinterpret_cast<void*>(handler), SA_SIGINFO | SA_NODEFER | kRestorer | flags,
                      reinterpret_cast<void*>(&comex_gate_restorer), open(~std::uint64_t{0})};
}

const PokeDesk& Signals::expect(Handler poke) noexcept {
  // Not on another stack: what is registered is the program's, and may be small.
  desk_.open(reinterpret_cast<std::uint64_t>(comex_gate_instruction), ours(poke, 0));
  (void)kernel_action(SIGSYS, &desk_.ours, &actions_[SIGSYS]);
  return desk_;
}

void Signals::arrive_dormant(const siginfo_t& info) noexcept {
  act_by_default(SIGSYS, info, actions_[SIGSYS].handler == reinterpret_cast<void*>(SIG_IGN));
}

void Signals::begin(Handler faults, Handler calls_handler) noexcept {
  for (int signal = 1; signal <= kSignals; ++signal) {
    const bool ours = (bit(signal) & kOurs) != 0;
    if (ours || kernel_action(signal, nullptr, &actions_[signal]) < 0) continue;
    if (calls(actions_[signal])) (void)install(signal, actions_[signal]);
  }
  const KernelAction for_faults = ours(faults, SA_ONSTACK);
  (void)kernel_action(SIGBUS, &for_faults, &actions_[SIGBUS]);
  const KernelAction for_calls = ours(calls_handler, SA_ONSTACK);
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
    ours.mask = open(~std::uint64_t{0});
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
  KernelAction before;
  if (this_thread()->own_actions) {
    const std::int64_t result = guest_action(signal, next != 0 ? &after : nullptr, before);
    if (result < 0) return result;
  } else {
    const std::lock_guard lock(mutex_);
    before = actions_[signal];
    if (next != 0) {
      const bool ours = (bit(signal) & kOurs) != 0;
      if (const std::int64_t result = ours ? 0 : install(signal, after); result < 0) return result;
      actions_[signal] = after;
    }
  }
  return previous == 0 || copy_out(previous, &before, sizeof before) ? 0 : -EFAULT;
}

std::int64_t Signals::guest_action(int signal, const KernelAction* next, KernelAction& before) noexcept {
  if (const std::int64_t result = kernel_action(signal, nullptr, &before); result < 0) return result;
  if (before.restorer == reinterpret_cast<void*>(&comex_gate_restorer)) before = actions_[signal];
  return next == nullptr || (bit(signal) & kOurs) != 0 ? 0 : install(signal, *next);
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
  constexpr std::uint64_t kHarmless = kOurs | bit(SIGCHLD) | bit(SIGCONT) | bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) |
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
  // No handler can come in between: the process ends here, or the signal was somebody else's after all.
  for (const int how : {SIG_UNBLOCK, SIG_BLOCK}) {
    comex_gate_call(SYS_rt_sigprocmask, static_cast<std::uint64_t>(how), reinterpret_cast<std::uint64_t>(&asked), 0,
                    sizeof asked, 0, 0);
  }
}

void Signals::arrive(int signal, siginfo_t* info, ucontext_t& frame, bool inside) noexcept {
  Arrival arrival;
  arrival.signal = signal;
  arrival.info = *info;
  arrival.action = actions_[signal];
  if (!calls(arrival.action)) {
    // Of another: the action was changed while the signal was on its way.
    if ((bit(signal) & kOurs) != 0) {
      act_by_default(signal, *info, arrival.action.handler == reinterpret_cast<void*>(SIG_IGN));
    }
    return;
  }
  if ((arrival.action.flags & SA_RESETHAND) != 0) actions_[signal] = KernelAction{};
  ThreadState& state = *this_thread();
  // Code of ours is no place for a handler of the program's. Only the two signals that are not blocked there get here.
  if (!inside && !state.waiting) return deliver(state, arrival, frame, nullptr);
  if (state.aside.signal != 0) return;  // one of ours, sent by somebody, on top of another
  state.aside = arrival;
  if (!state.waiting) return;
  state.aside_masked = true;
  state.aside_mask = mask_of(frame);
  mask_of(frame) = open(~std::uint64_t{0});
  leave_call(frame);
}

void on_signal(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  ThreadState* const state = this_thread();
  // The program's handler is for its own threads.
  if (state == nullptr) stop("a thread of comex failed");
  const std::uint8_t before = state->selector;
  state->selector = 0;
  auto& frame = *static_cast<ucontext_t*>(context);
  const bool inside = before == 0;
  if (!inside && !state->waiting) use_stack_from(*state, frame);
  signals.arrive(signal, info, frame, inside);
  if (!inside && !state->waiting) deliver_aside(*state, frame);
  state->selector = before;
  errno = error;
}

}  // namespace comex::runtime

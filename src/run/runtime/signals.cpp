#include "run/runtime/signals.h"

#include <sys/syscall.h>

#include <cerrno>
#include <mutex>

#include "run/runtime/gate_entry.h"
#include "run/runtime/process.h"

namespace comex::runtime {
namespace {

constexpr std::uint64_t kRestorer = 0x04000000;  // SA_RESTORER

std::int64_t kernel_action(int signal, const KernelAction* next, KernelAction* previous) {
  return comex_gate_call(SYS_rt_sigaction, static_cast<std::uint64_t>(signal), reinterpret_cast<std::uint64_t>(next),
                         reinterpret_cast<std::uint64_t>(previous), sizeof(std::uint64_t), 0, 0);
}

void on_signal(int signal, siginfo_t* info, void* context) {
  // The program's handler is for its own threads.
  if (signal == SIGSEGV && this_thread() == nullptr) stop("a thread of comex failed");
  (void)signals.forward(signal, info, context);
}

}  // namespace

constinit Signals signals;

bool Signals::calls(const KernelAction& action) noexcept {
  return action.handler != reinterpret_cast<void*>(SIG_DFL) && action.handler != reinterpret_cast<void*>(SIG_IGN);
}

// Everything else waits while we work: a handler of the program must not find our locks held by its own thread.
void Signals::take(int signal, Handler handler, KernelAction* previous) noexcept {
  const KernelAction mine{reinterpret_cast<void*>(handler), SA_SIGINFO | SA_NODEFER | kRestorer,
                          reinterpret_cast<void*>(&comex_gate_restorer), open(~std::uint64_t{0} & ~bit(SIGSEGV))};
  (void)kernel_action(signal, &mine, previous);
}

void Signals::expect(Handler poke) noexcept {
  take(SIGSYS, poke, &actions_[SIGSYS]);
}

void Signals::begin(Handler faults, Handler calls_handler) noexcept {
  for (int signal = 1; signal <= kSignals; ++signal) {
    const bool ours = signal == SIGBUS || signal == SIGSYS;
    if (ours || kernel_action(signal, nullptr, &actions_[signal]) < 0) continue;
    if (calls(actions_[signal])) (void)install(signal, actions_[signal]);
  }
  take(SIGBUS, faults, &actions_[SIGBUS]);
  KernelAction before{};
  take(SIGSYS, calls_handler, &before);
  // The program's own, if it has taken the signal for itself since expect(), or there was none.
  if (before.restorer != reinterpret_cast<void*>(&comex_gate_restorer)) actions_[SIGSYS] = before;
}

std::int64_t Signals::install(int signal, const KernelAction& action) noexcept {
  KernelAction ours = action;
  ours.mask = open(action.mask);
  if (calls(action)) {
    ours.handler = reinterpret_cast<void*>(&on_signal);
    ours.flags |= SA_SIGINFO | kRestorer;
    ours.restorer = reinterpret_cast<void*>(&comex_gate_restorer);
  }
  return kernel_action(signal, &ours, nullptr);
}

std::int64_t Signals::action(int signal, const KernelAction* next, KernelAction* previous) noexcept {
  if (signal < 1 || signal > kSignals || signal == SIGKILL || signal == SIGSTOP) {
    const bool asks = signal == SIGKILL || signal == SIGSTOP;
    return asks && next == nullptr ? kernel_action(signal, nullptr, previous) : -EINVAL;
  }
  const std::lock_guard lock(mutex_);
  const KernelAction before = actions_[signal];
  if (next != nullptr) {
    const KernelAction after = *next;  // `previous` may be the same memory
    const bool ours = signal == SIGBUS || signal == SIGSYS;
    if (!ours) {
      if (const std::int64_t result = install(signal, after); result < 0) return result;
    }
    actions_[signal] = after;
  }
  if (previous != nullptr) *previous = before;
  return 0;
}

std::int64_t Signals::mask(int how, const std::uint64_t* next, std::uint64_t* previous,
                           std::uint64_t& current) noexcept {
  const std::uint64_t before = current;
  if (next != nullptr) {
    switch (how) {
      case SIG_BLOCK: current = open(before | *next); break;
      case SIG_UNBLOCK: current = before & ~*next; break;
      case SIG_SETMASK: current = open(*next); break;
      default: return -EINVAL;
    }
  }
  if (previous != nullptr) *previous = before;
  return 0;
}

bool Signals::forward(int signal, siginfo_t* info, void* context) noexcept {
  const KernelAction action = actions_[signal];
  if (!calls(action)) {
    if (signal != SIGBUS && signal != SIGSYS) return true;  // it was changed while the signal was on its way
    KernelAction plain{};
    (void)kernel_action(signal, &plain, nullptr);
    return false;
  }
  if ((action.flags & SA_RESETHAND) != 0) actions_[signal] = KernelAction{};
  ThreadState* const state = this_thread();
  const std::uint8_t before = state != nullptr ? state->selector : 0;
  if (state != nullptr) state->selector = 1;
  reinterpret_cast<Handler>(action.handler)(signal, info, context);
  if (state != nullptr) state->selector = before;
  return true;
}

}  // namespace comex::runtime

// The program's signal actions and masks, as it believes them to be.
//
// Two signals are the runtime's: SIGBUS brings its faults, SIGSYS its system calls. They must never be blocked, or the
// kernel kills the process; so they are taken out of every mask that the kernel gets, and remembered for the program.
// All signals that the program handles come to a handler of ours first, which has its own called (delivery.h).
//
// A signal that interrupts a call that was let through (ThreadState::waiting) is put aside: the call ends, or is not
// made at all, the gate is left, and then the program's handler is called. So is a SIGBUS or SIGSYS that somebody sends
// while a thread is in our own code, where all others are blocked.
//
// Thread safety: any thread. Fault path: yes.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstdint>

#include "base/mutex.h"
#include "run/poke_desk.h"

namespace comex::runtime {

struct ThreadState;

// A signal that has come, and what the program wanted done about it then.
struct Arrival {
  int signal = 0;  // 0: none
  KernelAction action;
  siginfo_t info{};
};

constexpr stack_t no_stack() {
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  return none;
}

// What is blocked where the frame goes on.
inline std::uint64_t& mask_of(ucontext_t& frame) noexcept {
  return *reinterpret_cast<std::uint64_t*>(&frame.uc_sigmask);
}

class Signals {
 public:
  using Handler = void (*)(int, siginfo_t*, void*);

  // Takes SIGSYS, for the one that the keeper sends, while the process is dormant. The program may take it away again:
  // returns what the keeper needs to bring it back.
  const PokeDesk& expect(Handler poke) noexcept;
  // SIGSYS has come to a dormant process, and is not the keeper's.
  void arrive_dormant(const siginfo_t& info) noexcept;
  // Takes SIGBUS and SIGSYS, and puts itself in front of the handlers that there are.
  void begin(Handler faults, Handler calls) noexcept;

  // What the system calls of these names do; -errno.
  std::int64_t action(int signal, std::uint64_t next, std::uint64_t previous) noexcept;
  static std::int64_t mask(int how, std::uint64_t next, std::uint64_t previous, ucontext_t& frame) noexcept;

  // What the program wants blocked when it goes on as `frame` says.
  static void set_mask(ThreadState& state, ucontext_t& frame, std::uint64_t mask) noexcept;

  // Around a fork: the child must not find the actions half changed.
  void hold() noexcept { mutex_.lock(); }
  void let_go() noexcept { mutex_.unlock(); }

  static constexpr std::uint64_t bit(int signal) { return std::uint64_t{1} << (signal - 1); }
  static constexpr std::uint64_t kOurs = std::uint64_t{1} << (SIGBUS - 1) | std::uint64_t{1} << (SIGSYS - 1);
  // A mask without what must not be blocked.
  static constexpr std::uint64_t open(std::uint64_t mask) { return mask & ~kOurs; }

  // A signal of the program's has come to a handler of ours, whose frame this is. `inside`: while the thread was in
  // code of ours. Then whoever leaves that has it delivered (deliver_aside).
  void arrive(int signal, siginfo_t* info, ucontext_t& frame, bool inside) noexcept;
  // A thread that waits for a page has all signals blocked. One that was sent to the process, and ends it by default,
  // does so all the same: for a thread of ours to look now and then.
  void end_if_asked() noexcept;
  // The default action from now on.
  static void reset(int signal) noexcept;

 private:
  static constexpr int kSignals = 64;
  static bool calls(const KernelAction& action) noexcept;
  static KernelAction ours(Handler handler, std::uint64_t flags) noexcept;
  std::int64_t install(int signal, const KernelAction& action) noexcept;
  // For a child that shares the memory of this process but not its actions (posix_spawn), which it puts back to the
  // default before it executes: they are in the kernel only.
  std::int64_t guest_action(int signal, const KernelAction* next, KernelAction& before) noexcept;
  void act_by_default(int signal, const siginfo_t& info, bool ignored) noexcept;

  Mutex mutex_;                         // orders changes
  KernelAction actions_[kSignals + 1];  // the program's
  PokeDesk desk_;
};

extern Signals signals;

// The handler of all signals that the program handles.
void on_signal(int signal, siginfo_t* info, void* context);

}  // namespace comex::runtime

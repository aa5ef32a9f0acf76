// The program's signal actions and masks, as it believes them to be.
//
// Two signals are the runtime's: SIGBUS brings its faults, SIGSYS its system calls. They must never be blocked, or the
// kernel kills the process; so they are taken out of every mask that the kernel gets, and remembered for the program.
// All signals that the program handles come to a handler of ours first, which has its own called (delivery.h).
//
// A signal that interrupts a call that was let through (ThreadState::waiting) is put aside: the call ends, or is not
// made at all, the gate is left, and then the program's handler is called. So is a SIGBUS that somebody sends while a
// thread is in the gate, where all others are blocked. SIGBUS and SIGSYS that the program has blocked are kept until it
// has not.
//
// Thread safety: any thread. Fault path: yes.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstdint>
#include <mutex>

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

  // Returns what the keeper needs to have a dormant process handle the SIGSYS that it sends. Until then nothing of it
  // is taken.
  const PokeDesk& expect(Handler poke) noexcept;
  // SIGSYS has come to a dormant process, and is not the keeper's.
  void arrive_dormant(const siginfo_t& info) noexcept;
  // Takes SIGBUS and SIGSYS, and puts itself in front of the handlers that there are.
  void begin(Handler faults, Handler calls) noexcept;

  // What the system calls of these names do; -errno.
  std::int64_t action(int signal, std::uint64_t next, std::uint64_t previous) noexcept;
  static std::int64_t mask(int how, std::uint64_t next, std::uint64_t previous, ucontext_t& frame) noexcept;

  // Whether the program has a handler for it. Without a lock: it may be changed meanwhile.
  [[nodiscard]] bool handles(int signal) const noexcept { return calls(actions_[signal]); }

  // For a task that is about to begin, and has actions of its own: those of the one that makes it, to begin with.
  // False: there is no memory.
  bool begin_own(ThreadState& child, const ThreadState& maker) noexcept;
  // In the child of such a task, by fork: they are those of the process now.
  void adopt(ThreadState& state) noexcept;

  // In a program that is executed by one that ignores them, as the first thing.
  static void ignore(std::uint64_t ignored) noexcept;

  // What the program wants blocked when it goes on as `frame` says.
  static void set_mask(ThreadState& state, ucontext_t& frame, std::uint64_t mask) noexcept;

  // Around a fork: the child must not find the actions half changed.
  void hold() noexcept { mutex_.lock(); }
  void let_go() noexcept { mutex_.unlock(); }

  static constexpr std::uint64_t bit(int signal) { return std::uint64_t{1} << (signal - 1); }
  static constexpr std::uint64_t kOurs = std::uint64_t{1} << (SIGBUS - 1) | std::uint64_t{1} << (SIGSYS - 1);
  // A mask without what must not be blocked while the program runs.
  static constexpr std::uint64_t open(std::uint64_t mask) { return mask & ~kOurs; }
  // What is blocked in our handlers, by the kernel and from their first instruction on: however many signals are sent,
  // their frames do not pile up. The gate may fault, and nothing comes on top of the handler of faults.
  static constexpr std::uint64_t kEverything = ~std::uint64_t{0};
  static constexpr std::uint64_t kButFaults = ~(std::uint64_t{1} << (SIGBUS - 1));
  // Blocks these for this thread, and no others.
  static void block(std::uint64_t mask) noexcept;

  // A signal of the program's has come to a handler of ours, whose frame this is. `inside`: while the thread was in
  // code of ours. Then whoever leaves that has it delivered (deliver_aside).
  void arrive(int signal, const siginfo_t& info, ucontext_t& frame, bool inside) noexcept;
  // For later: one of our two.
  static void keep(ThreadState& state, int signal, const siginfo_t& info) noexcept;
  void keep_aside(ThreadState& state) noexcept;
  // What was kept, and is not blocked any more. REQUIRES: the thread is about to go on as `frame` says.
  void deliver_kept(ThreadState& state, ucontext_t& frame) noexcept;
  // Has the kernel keep what we kept: it knows how to wait for it. REQUIRES: it is blocked.
  static void give_kept_to_kernel(ThreadState& state) noexcept;
  // Of a thread that ends: what was sent to the process is for another. REQUIRES: it has everything blocked.
  static void pass_kept_on(ThreadState& state) noexcept;
  // A thread that waits for a page has all signals blocked. One that was sent to the process, and ends it by default,
  // does so all the same: for a thread of ours to look now and then.
  void end_if_asked() noexcept;
  // The default action from now on.
  static void reset(int signal) noexcept;

 private:
  static constexpr int kSignals = 64;
  static bool calls(const KernelAction& action) noexcept;
  static KernelAction ours(Handler handler, std::uint64_t flags, std::uint64_t mask) noexcept;
  std::int64_t install(int signal, const KernelAction& action) noexcept;
  // Those of the process, or of a task that has its own.
  KernelAction* actions_of(const ThreadState& state) noexcept;
  std::unique_lock<Mutex> lock_for(const ThreadState& state) noexcept;
  void act_by_default(int signal, const siginfo_t& info, bool ignored) noexcept;

  Mutex mutex_;                         // orders changes
  KernelAction actions_[kSignals + 1];  // the program's
  PokeDesk desk_;
};

extern Signals signals;

// Whether a signal has come to a thread while it was in a handler of ours: also in its first and last moments, when it
// stands on our stack and the selector is closed still, or again.
bool is_in_our_code(std::uint8_t selector, const ucontext_t& frame) noexcept;

// Whether the program stands right behind a system call, by what the instruction leaves in two registers. After one
// that the gate has served it does not look so, nor after note_made().
inline bool is_after_call(const ucontext_t& frame) noexcept {
  const greg_t* const registers = frame.uc_mcontext.gregs;
  return registers[REG_RCX] == registers[REG_RIP] && registers[REG_R11] == registers[REG_EFL];
}
// In a handler whose frame may be that of a thread which made the call itself, before it was under the gate.
inline void note_made(ucontext_t& frame) noexcept {
  if (is_after_call(frame)) frame.uc_mcontext.gregs[REG_R11] = 0;
}
// In a handler: if a signal has come in the stead of a system call, the program is set back to the call.
void set_back_unmade(const ThreadState* state, ucontext_t& frame) noexcept;

// The handler of all signals that the program handles.
void on_signal(int signal, siginfo_t* info, void* context);

}  // namespace comex::runtime

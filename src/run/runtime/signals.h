// The program's signal actions, as it believes them to be, and how they are carried out.
//
// Two signals are the runtime's: SIGBUS brings its faults, SIGSYS its system calls. They must never be blocked, or the
// kernel kills the process; so they are taken out of every mask. The program's handlers, for all signals, are called by
// a handler of ours, which closes the gate for them: they may interrupt a call that was let through.
//
// Thread safety: any thread. Fault path: yes.
#pragma once

#include <signal.h>

#include <cstdint>

#include "base/mutex.h"

namespace comex::runtime {

// As rt_sigaction(2) has it, which is not how libc has it.
struct KernelAction {
  void* handler = nullptr;
  std::uint64_t flags = 0;
  void* restorer = nullptr;
  std::uint64_t mask = 0;
};

class Signals {
 public:
  using Handler = void (*)(int, siginfo_t*, void*);

  // Takes SIGSYS, for the one that the keeper sends, while the process is dormant.
  void expect(Handler poke) noexcept;
  // Takes SIGBUS and SIGSYS, and puts itself in front of the handlers that there are.
  void begin(Handler faults, Handler calls) noexcept;

  // What the system calls of these names do; -errno. The pointers may be null, and lead to memory that is there.
  std::int64_t action(int signal, const KernelAction* next, KernelAction* previous) noexcept;
  static std::int64_t mask(int how, const std::uint64_t* next, std::uint64_t* previous,
                           std::uint64_t& current) noexcept;

  // Around a fork: the child must not find the actions half changed.
  void hold() noexcept { mutex_.lock(); }
  void let_go() noexcept { mutex_.unlock(); }

  // A mask without what must not be blocked.
  static std::uint64_t open(std::uint64_t mask) noexcept { return mask & ~(bit(SIGBUS) | bit(SIGSYS)); }

  // Calls the program's handler for a signal that is not the runtime's after all. False if it has none: the action is
  // the default one from now on, and happens when the cause happens again.
  bool forward(int signal, siginfo_t* info, void* context) noexcept;

 private:
  static constexpr int kSignals = 64;
  static constexpr std::uint64_t bit(int signal) { return std::uint64_t{1} << (signal - 1); }
  static bool calls(const KernelAction& action) noexcept;
  static void take(int signal, Handler handler, KernelAction* previous) noexcept;
  std::int64_t install(int signal, const KernelAction& action) noexcept;

  Mutex mutex_;                         // orders changes
  KernelAction actions_[kSignals + 1];  // the program's
};

extern Signals signals;

}  // namespace comex::runtime

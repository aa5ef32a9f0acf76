// All threads of the program at once: how they are taken over when the process wakes, and how they are stopped when
// something must be changed that none of them may see half done.
//
// The keeper sends each thread a signal, at a moment at which none of them is in a system call (run/keeper/poke.h). The
// handler comes here and waits. When a dormant process wakes, one does the work once all have come; then each puts
// itself under the gate, and when all have, they go on together. See "Waking" in docs/design-notes.md.
//
// Thread safety: any thread. Fault path: yes.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>

namespace comex::runtime {

// What a thread stands on, and what must not be taken from under it. On its stack, for as long as it waits.
struct Standing {
  std::uint64_t stack = 0;           // stack pointer
  std::uint64_t thread_pointer = 0;  // thread-local storage below, control block above
  std::uint64_t signal_stack = 0;    // its begin and end; 0: none
  std::uint64_t signal_stack_end = 0;
  std::uint32_t thread = 0;
  bool main = false;
  bool apart = false;  // its descriptors are not those of the one that sets the process up
  Standing* next = nullptr;
};

class World {
 public:
  // The handler of SIGSYS, whose frame this is, calls this. False if the signal is not the keeper's.
  bool come(const siginfo_t& info, ucontext_t& frame) noexcept;
  // For a process that wakes as it begins. REQUIRES: this is its one thread.
  void wake_alone() noexcept { wake(1, true); }

  // For a process that is dormant: has the keeper wake it now. When this returns it is awake, or never will be.
  // REQUIRES: the caller is in no handler of ours.
  static void ask_to_wake() noexcept;

  // Stops all other threads of the program, and keeps faults and eviction out. None of them is in a system call; those
  // that were make it again when they go on. False if that cannot be done; then nothing has changed.
  // REQUIRES: the process is awake, and the caller holds no lock of the runtime.
  bool stop() noexcept;
  void go() noexcept;

 private:
  enum Phase : std::uint32_t { gathering, prepared, running };

  void wake(std::uint32_t expected, bool alone = false) noexcept;
  void set_phase(Phase phase) noexcept;
  void appoint(Standing& last) noexcept;

  std::atomic<std::uint32_t> phase_{gathering};
  std::atomic<std::uint32_t> came_{0};
  std::atomic<std::uint32_t> ready_{0};
  std::atomic<Standing*> standings_{nullptr};
  std::atomic<Standing*> leader_{nullptr};
};

extern World world;

// Sets up everything for a process whose threads stand still, but for the threads (start.cpp).
void prepare_process(const Standing* threads) noexcept;

}  // namespace comex::runtime

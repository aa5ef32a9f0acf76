// The threads of another process, stopped the way a debugger stops them (ptrace), whatever they are about: making
// others, ending, or executing another program. See "Waking" in docs/design-notes.md.
//
// Who executes another program ends all other threads and takes the number of the first one, whether we hold that one
// or not: a number that stood can be another thread, which runs. Only the first thread's number passes on like that.
// It also waits until every other thread that is held has been reaped, while PTRACE_SEIZE waits for it.
//
// Thread safety: none, ptrace belongs to a thread: all of this by one. That one
// - must end soon after: what could not be let go (it has ended, or is not interruptible) is let go by the kernel then;
// - must not be the one that calls bury_ended(), which somebody has to, now and then, until all of this is over.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"
#include "run/keeper/poke_proc.h"

namespace comex {

struct HeldThread {
  enum class Life { runs, stands, gone };

  pid_t id = 0;
  Life life = Life::runs;
  int signal = 0;  // that it was about to be handed when it stopped
};

class StoppedThreads {
 public:
  StoppedThreads(pid_t process, pid_t spared) : process_(process), spared_(spared) {}
  // They run on.
  ~StoppedThreads();
  StoppedThreads(const StoppedThreads&) = delete;
  StoppedThreads& operator=(const StoppedThreads&) = delete;

  // All but the one that is spared, until all stand. Errors are those of poke().
  Expected<void> stop(Deadline patience);

  // REQUIRES: stopped. All stand, and none but for the end of the process will do anything else.
  [[nodiscard]] std::span<HeldThread> all() { return held_; }
  [[nodiscard]] std::span<const HeldThread> all() const { return held_; }

  // Somebody has seen to it that the calls which they were in go on (run/keeper/poke_call.h).
  void calls_are_set_back() { calls_set_back_ = true; }

  // A signal is about to be handed to it, or nobody can tell.
  [[nodiscard]] static bool signal_comes(const HeldThread& thread, const std::optional<SignalStatus>& status);

 private:
  struct Look {
    bool running = false;  // there are some that do not stand yet
    bool missed = false;   // there were some that could not be found by their number any more
  };
  enum class Grip { held, missed, ended };

  Expected<Look> look();
  Expected<Grip> take(pid_t id) const;
  Expected<void> wait(Deadline patience);
  bool all_stand();
  std::size_t forget_gone();
  [[nodiscard]] bool nobody_runs() const;
  [[nodiscard]] const HeldThread* find(pid_t id) const;
  [[nodiscard]] bool runs(const HeldThread& thread) const;
  [[nodiscard]] Error found_nobody() const;
  void let_go(const HeldThread& thread) const;

  const pid_t process_;
  const pid_t spared_;
  std::vector<HeldThread> held_;
  bool calls_set_back_ = false;
};

// Reaps the threads of that process that have ended while a thread of this one held them.
void bury_ended(pid_t process);

}  // namespace comex

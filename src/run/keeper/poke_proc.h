// What can be seen of another process and its threads.
//
// "Cannot be told" (no descriptor is left to read it with, say) is never taken for "has ended". And a thread that has
// ended says nothing of the process: while a thread becomes the first one, by executing another program, /proc has the
// old first one, which has ended, or none.
//
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/expected.h"

namespace comex {

// All its threads have.
bool process_has_ended(pid_t process);

// All of them, those that have ended and are not reaped included. Errc::disconnected: the process has ended.
// Errc::busy: it cannot be told now.
Expected<std::vector<pid_t>> threads_of(pid_t process);

// The letter that the kernel has for it: 'R' runs, 'D' waits and cannot be interrupted, 'Z' and 'X' have ended. Nothing
// if it cannot be told. One that is not there has ended.
std::optional<char> thread_state(pid_t process, pid_t thread);

bool thread_has_ended(pid_t process, pid_t thread);

// Sets of signals: bit 0 is signal 1.
struct SignalStatus {
  std::uint64_t pending = 0;  // for it, or for the process
  std::uint64_t own = 0;      // ... for it alone
  std::uint64_t blocked = 0;
  std::uint64_t handled = 0;
};

// Nothing if it has ended or cannot be told.
std::optional<SignalStatus> signal_status(pid_t process, pid_t thread);

}  // namespace comex

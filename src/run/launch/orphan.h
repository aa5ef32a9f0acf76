// A process of its own: started by this one, and nobody's child.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>

#include "base/expected.h"

namespace comex {

struct Orphan {
  pid_t pid = 0;
  bool can_trace = false;  // it has the right to trace this process
};

// Runs the program `path` with the given descriptors, from number `first` on (one that is negative: closed), and none
// beyond them. It has no input and output: this process's are not its to hold open. What the terminal and the shell do
// to this process is not meant for it: it is a process group of its own, and ignores their signals. It stays in the
// session, though: Linux schedules sessions against each other (autogroup), and has let one with a handful of threads,
// which all others were waiting for, starve for 20 seconds. An error if it may not be executed; that it then is, nobody
// waits for.
// REQUIRES: this process has one thread.
Expected<Orphan> start_orphan(const std::string& path, int first, std::span<const int> files);

}  // namespace comex

// Runs a program in a child and waits until everything about it is done, as if this process were the program: signals
// that are sent to this process go to it, both are stopped and go on together, and the end is the program's own.
#pragma once

#include <functional>

#include "base/fd.h"

namespace comex {

// `become` runs in the child, and returns an exit code or not at all. What it is given is closed, by whoever has it
// then, when all is done; that is waited for, for a while. Returns the exit code of the program, or dies as it died.
// REQUIRES: this process has one thread.
int accompany(const std::function<int(Fd done)>& become);

}  // namespace comex

// How a command ends badly: one line on stderr and an exit code.
// Thread-safe.
#pragma once

#include <string_view>

#include "base/expected.h"

namespace comex {

inline constexpr int kExitFailed = 1;    // it was asked rightly and could not be done
inline constexpr int kExitBadUsage = 2;  // it was asked wrongly: flags, configuration, environment

// Prints "comex: message" as one line, whatever the message holds, and returns the exit code.
int fail(std::string_view message, int exit_code);
// Bad usage if the error's code says so, failed otherwise.
int fail(const Error& error);

}  // namespace comex

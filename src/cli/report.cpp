#include "cli/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace comex {

int fail(std::string_view message, int exit_code) {
  std::string line(message);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  fmt::print(stderr, "comex: {}\n", line);
  return exit_code;
}

int fail(const Error& error) {
  return fail(error.message, error.code == Errc::invalid ? kExitBadUsage : kExitFailed);
}

}  // namespace comex

// The program that `comex run` is about to run: where it is, and whether the runtime can be loaded into it.
// Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/expected.h"

namespace comex {

inline constexpr int kExitNotRunnable = 126;  // as shells have it
inline constexpr int kExitNotFound = 127;

// Why a program is not run: what to say, and the exit code.
struct Refusal {
  int exit_code = 0;
  std::string why;
};

// As execvp would find it; empty if there is none.
std::string find_program(const std::string& name);

// Nothing if all is well. Scripts are judged by their interpreter. `privileged`: of the process that will run it.
struct Privileges {
  unsigned user = 0;
  unsigned group = 0;
  bool no_more = false;  // no program can get more (PR_SET_NO_NEW_PRIVS)
  static Privileges here();
};
std::optional<Refusal> examine_program(const std::string& path, const Privileges& privileges = Privileges::here());

}  // namespace comex

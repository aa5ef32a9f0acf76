// From what the user configured to what a Server is started with: the defaults that depend on the host, and the rule
// that nobody lends memory to a network without asking who is there.
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/expected.h"
#include "cli/config.h"
#include "node/server.h"

namespace comex {

// What the plan needs to know of the host. Tests make their own.
struct ServeHost {
  bool root = false;
  std::string runtime_dir;  // $XDG_RUNTIME_DIR
  std::uint16_t nid = 1;

  static ServeHost here();
};

inline constexpr std::string_view kSystemSocketDir = "/run/comex";

// Errors are bad usage, told in one line. Reads the secret. `memory` stays 0 when it is to be what the host can spare.
Expected<ServerConfig> plan_serve(const ServeSettings& settings, const ServeHost& host);

}  // namespace comex

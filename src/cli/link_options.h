// From what the user configured to what a link needs: for every command that is a client of the pool.
// Thread-safe.
#pragma once

#include <string>

#include "base/expected.h"
#include "cli/config.h"
#include "fabric/connect.h"

namespace comex {

// Reads the secret and fills in this host's NID. `name` is what `comex status` shows for this client.
Expected<LinkOptions> link_options(const PoolSettings& pool, std::string name);

}  // namespace comex

// Whether the pool that is configured has as many nodes as --replicas or --code asks for.
// Thread safety: pure functions.
#pragma once

#include "base/expected.h"
#include "cli/config.h"
#include "pool/failure_domains.h"

namespace comex {

// Errc::invalid, with what to change, if it has not, however many of them are up.
Expected<void> check_replicas(const Config& config);

}  // namespace comex

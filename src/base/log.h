// Sets up logging: spdlog's default logger, to stderr, at a level the user picks. Everything else calls spdlog itself.
//
// spdlog allocates, locks and writes: it is never used on the fault path.
// Thread safety: start_logging is called once, early in main; logging itself is thread-safe.
#pragma once

#include <string_view>

#include "base/expected.h"

namespace comex {

// `flag` is the level from the command line, or empty: then COMEX_LOG, then `otherwise`.
// Levels: trace, debug, info, warning, error, off.
Expected<void> start_logging(std::string_view flag, std::string_view otherwise = "warning");

}  // namespace comex

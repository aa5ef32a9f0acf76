// Sets up logging: spdlog's default logger, to stderr, at a level the user picks. Everything else calls spdlog itself.
//
// spdlog allocates, locks and writes: it is never used on the fault path.
// Thread safety: start_logging is called once, early in main; logging itself is thread-safe.
#pragma once

#include <string_view>

namespace comex {

// REQUIRES: a level of base/log_level.h.
void start_logging(std::string_view level);

}  // namespace comex

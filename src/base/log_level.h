// Which log level the user wants. Apart from base/log.h, so that who does not log does not load the library for it.
#pragma once

#include <string>
#include <string_view>

#include "base/expected.h"

namespace comex {

// `flag` is the level from the command line, or empty: then COMEX_LOG, then `otherwise`.
// Levels: trace, debug, info, warning, error, off.
Expected<std::string> log_level(std::string_view flag, std::string_view otherwise = "warning");

}  // namespace comex

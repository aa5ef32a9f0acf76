// The file of `comex run --profile`, before the program starts. Thread safety: a function without state.
#pragma once

#include <string>

#include "base/expected.h"

namespace comex {

// Its whole path, links followed. Errc::invalid if it cannot be written, or if what is there is something else than a
// profile: that must not be lost.
Expected<std::string> find_profile(const std::string& path);

}  // namespace comex

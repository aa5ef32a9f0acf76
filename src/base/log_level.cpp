#include "base/log_level.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace comex {
namespace {

// spdlog takes any misspelling for "off".
constexpr std::array<std::string_view, 7> kLevels{"trace", "debug", "info", "warning", "warn", "error", "off"};

}  // namespace

Expected<std::string> log_level(std::string_view flag, std::string_view otherwise) {
  std::string_view name = otherwise;
  std::string_view origin = "the default log level";
  if (const char* variable = std::getenv("COMEX_LOG"); variable != nullptr && *variable != '\0') {
    name = variable;
    origin = "COMEX_LOG";
  }
  if (!flag.empty()) {
    name = flag;
    origin = "--log";
  }
  if (std::find(kLevels.begin(), kLevels.end(), name) != kLevels.end()) return std::string(name);
  return Error{Errc::invalid,
               fmt::format("{}: '{}' is not a log level; use trace, debug, info, warning, error or off", origin, name)};
}

}  // namespace comex

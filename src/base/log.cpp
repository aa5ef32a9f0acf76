#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <optional>

namespace comex {
namespace {

// Not spdlog's own reader: that one takes any misspelling for "off".
std::optional<spdlog::level::level_enum> level_of(std::string_view name) {
  if (name == "trace") return spdlog::level::trace;
  if (name == "debug") return spdlog::level::debug;
  if (name == "info") return spdlog::level::info;
  if (name == "warning" || name == "warn") return spdlog::level::warn;
  if (name == "error") return spdlog::level::err;
  if (name == "off") return spdlog::level::off;
  return std::nullopt;
}

}  // namespace

Expected<void> start_logging(std::string_view flag, std::string_view otherwise) {
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
  const auto level = level_of(name);
  if (!level) {
    return Error{
        Errc::invalid,
        fmt::format("{}: '{}' is not a log level; use trace, debug, info, warning, error or off", origin, name)};
  }

  auto logger = std::make_shared<spdlog::logger>("comex", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%H:%M:%S.%e %^%l%$ %v");
  logger->set_level(*level);
  spdlog::set_default_logger(std::move(logger));
  return {};
}

}  // namespace comex

#include "bench/evict/evict_figures.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace comex::bench {

Expected<std::uint64_t> parse_missed(const std::string& stats) {
  const auto json = nlohmann::json::parse(stats, nullptr, false);
  const auto faults = json.is_object() ? json.value("faults", nlohmann::json()) : nlohmann::json();
  std::uint64_t missed = 0;
  for (const char* const from : {"from_staging", "from_read_buffer", "from_node"}) {
    if (!faults.is_object() || !faults.contains(from)) return Error{Errc::io, "its statistics cannot be read"};
    missed += faults.value(from, std::uint64_t{0});
  }
  return missed;
}

Expected<double> parse_seconds(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("seconds")) {
    return Error{Errc::io, fmt::format("it printed '{}' instead of figures", line.substr(0, 60))};
  }
  if (const auto wrong = json.value("pages_wrong", std::uint64_t{1}); wrong > 0) {
    return Error{Errc::io, fmt::format("{} pages were wrong", wrong)};
  }
  return json.value("seconds", 0.0);
}

}  // namespace comex::bench

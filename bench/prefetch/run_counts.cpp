#include "bench/prefetch/run_counts.h"

#include <nlohmann/json.hpp>

namespace comex::bench {

namespace {

std::optional<double> number_at(const nlohmann::json& json, const char* path) {
  const nlohmann::json::json_pointer pointer(path);
  if (!json.contains(pointer) || !json.at(pointer).is_number()) return std::nullopt;
  return json.at(pointer).get<double>();
}

}  // namespace

std::optional<double> RunCounts::accuracy() const {
  if (prefetched == 0) return std::nullopt;
  return static_cast<double>(used) / static_cast<double>(prefetched);
}

std::optional<double> RunCounts::coverage(const RunCounts& without) const {
  if (without.from_node == 0) return std::nullopt;
  return 1 - static_cast<double>(from_node) / static_cast<double>(without.from_node);
}

Expected<RunCounts> parse_run_counts(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.value("faults", nlohmann::json()).is_object()) {
    return Error{Errc::io, "comex run --stats wrote nothing that can be read"};
  }
  const auto count = [&](const char* path) { return static_cast<std::uint64_t>(number_at(json, path).value_or(0)); };
  RunCounts counts;
  counts.from_staging = count("/faults/from_staging");
  counts.from_buffer = count("/faults/from_read_buffer");
  counts.from_node = count("/faults/from_node");
  counts.prefetched = count("/pages_prefetched");
  counts.used = count("/pages_prefetched_used");
  counts.fault_seconds = number_at(json, "/seconds_in_faults").value_or(0);
  counts.lead_p50 = number_at(json, "/prefetch_lead_us/p50");
  counts.lead_p95 = number_at(json, "/prefetch_lead_us/p95");
  return counts;
}

}  // namespace comex::bench

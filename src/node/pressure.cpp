#include "node/pressure.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

namespace comex {

std::optional<double> parse_pressure(std::string_view text) {
  constexpr std::string_view kField = "some avg10=";
  const auto at = text.find(kField);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + kField.size());
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc{}) return std::nullopt;
  return percent;
}

std::optional<double> read_pressure() {
  std::ifstream file("/proc/pressure/memory");
  std::ostringstream text;
  text << file.rdbuf();
  return parse_pressure(text.str());
}

std::uint64_t Pressure::limit(const HostMemory& host, std::optional<double> stalled, std::uint64_t present,
                              std::uint64_t most, Clock::time_point now) {
  std::uint64_t missing = config_.reserve - std::min(config_.reserve, host.available);
  // Some more, so that the next few pages of somebody do not begin it all again.
  if (missing > 0) missing += config_.reserve / 8;
  if (stalled.value_or(0) > config_.stalled) missing = std::max(missing, present / config_.stalled_share);
  if (missing > 0) {
    pressed_at_ = now;
    const bool came = !limit_ || present <= *limit_;
    if (came || now >= lowered_at_ + config_.patience) {
      limit_ = present - std::min(present, missing);
      lowered_at_ = now;
    }
    return std::min(*limit_, most);
  }
  if (!limit_) return most;
  const std::uint64_t enough = config_.reserve + config_.reserve / 2;
  if (now >= pressed_at_ + config_.calm && host.available > enough) {
    limit_ = std::max(*limit_, present + (host.available - enough));
    if (*limit_ >= most) limit_.reset();
  }
  return limit_ ? std::min(*limit_, most) : most;
}

}  // namespace comex

#include "node/pressure.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "base/read_file.h"

namespace comex {

namespace {

std::string text_of(const char* path) {
  return read_file(path).value_or("");
}

}  // namespace

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

std::uint64_t parse_reclaims(std::string_view text) {
  constexpr std::string_view kField = "allocstall_";
  std::uint64_t sum = 0;
  for (auto at = text.find(kField); at != std::string_view::npos; at = text.find(kField, at + 1)) {
    const auto value = text.find(' ', at);
    if (value == std::string_view::npos) break;
    std::uint64_t count = 0;
    std::from_chars(text.data() + value + 1, text.data() + text.size(), count);
    sum += count;
  }
  return sum;
}

std::optional<Stalls> read_stalls() {
  const auto percent = parse_pressure(text_of("/proc/pressure/memory"));
  if (!percent) return std::nullopt;
  return Stalls{*percent, parse_reclaims(text_of("/proc/vmstat"))};
}

bool Pressure::host_is_stalled(std::optional<Stalls> stalls) {
  if (!stalls) return false;
  const auto before = std::exchange(reclaimed_, stalls->reclaimed);
  return stalls->percent > config_.stalled && before && stalls->reclaimed > *before;
}

std::uint64_t Pressure::limit(const HostMemory& host, std::optional<Stalls> stalls, std::uint64_t present,
                              std::uint64_t most, Clock::time_point now) {
  std::uint64_t missing = config_.reserve - std::min(config_.reserve, host.available);
  // Some more, so that the next few pages of somebody do not begin it all again.
  if (missing > 0) missing += config_.reserve / 8;
  if (host_is_stalled(stalls)) missing = std::max(missing, present / config_.stalled_share);
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

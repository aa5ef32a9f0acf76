// When a host runs short of memory, and how much of what is lent should come back to it.
//
//   available   |------------|-----------------|------------------------>
//               0         reserve       1.5 x reserve
//                 give back      leave as is       lend again, after a while
//
// Available memory (/proc/meminfo, narrowed by control groups) says how much is missing. Pressure stall information
// (/proc/pressure/memory), where the kernel has it, says that programs wait for memory already, whatever is available;
// they may wait within the limit of a control group of their own, where nothing that is given back would help them, so
// it counts only while the kernel reclaims for the host as a whole (allocstall in /proc/vmstat).
//
// Thread safety: none; belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "node/host_memory.h"

namespace comex {

struct Stalls {
  double percent = 0;           // of the last ten seconds, in which some task waited for memory
  std::uint64_t reclaimed = 0;  // how often since boot one had to make room that the host did not have
};

// The share of the last ten seconds. Nothing if the text is not that of /proc/pressure/memory.
std::optional<double> parse_pressure(std::string_view text);
// The sum of what /proc/vmstat tells of all zones.
std::uint64_t parse_reclaims(std::string_view text);
// Nothing if the kernel does not tell.
std::optional<Stalls> read_stalls();

struct PressureConfig {
  std::uint64_t reserve = 0;    // bytes that are to stay available to the host
  double stalled = 10;          // percent: more than this is pressure
  unsigned stalled_share = 16;  // ... and then one part of so many is given back at a time
  Millis patience{5'000};       // for clients to move before more is asked of them
  Millis calm{30'000};          // without pressure, before more is lent again
};

class Pressure {
 public:
  explicit Pressure(const PressureConfig& config) : config_(config) {}

  // How many bytes may be in memory from now on. `present`: that are; `most`: that may be without pressure.
  std::uint64_t limit(const HostMemory& host, std::optional<Stalls> stalls, std::uint64_t present, std::uint64_t most,
                      Clock::time_point now);

 private:
  bool host_is_stalled(std::optional<Stalls> stalls);

  const PressureConfig config_;
  std::optional<std::uint64_t> reclaimed_;  // at the last look
  std::optional<std::uint64_t> limit_;      // not set: there was no pressure yet
  Clock::time_point lowered_at_{};
  Clock::time_point pressed_at_{};
};

}  // namespace comex

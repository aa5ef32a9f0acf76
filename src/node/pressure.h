// When a host runs short of memory, and how much of what is lent should come back to it.
//
//   available   |------------|-----------------|------------------------>
//               0         reserve       1.5 x reserve
//                 give back      leave as is       lend again, after a while
//
// Available memory (/proc/meminfo, narrowed by control groups) says how much is missing. Pressure stall information
// (/proc/pressure/memory), where the kernel has it, says that programs wait for memory already, whatever is available.
//
// Thread safety: none; belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "node/host_memory.h"

namespace comex {

// The share of the last ten seconds that some task waited for memory, in percent. Nothing if the text is not that of
// /proc/pressure/memory.
std::optional<double> parse_pressure(std::string_view text);
// Nothing if the kernel does not tell.
std::optional<double> read_pressure();

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
  std::uint64_t limit(const HostMemory& host, std::optional<double> stalled, std::uint64_t present, std::uint64_t most,
                      Clock::time_point now);

 private:
  const PressureConfig config_;
  std::optional<std::uint64_t> limit_;  // not set: there was no pressure yet
  Clock::time_point lowered_at_{};
  Clock::time_point pressed_at_{};
};

}  // namespace comex

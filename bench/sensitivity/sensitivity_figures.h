// What a run of `comex bench sensitivity` found: how long programs take as one size varies, and where their faults were
// served. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/figures.h"
#include "bench/prefetch/run_counts.h"

namespace comex::bench {

// What varies. The first three are the paper's T, P and B.
enum class Sweep : std::uint8_t {
  threshold,  // frames that are kept at hand before more are asked for
  prefetch,   // pages that one fault brings at most
  buffer,     // pages in the read buffer
  memory,     // per cent of what the program wants that was local: no less than comex run takes
};
inline constexpr std::array<Sweep, 4> kSweeps{Sweep::threshold, Sweep::prefetch, Sweep::buffer, Sweep::memory};
// The name on the command line and in JSON.
std::string_view to_string(Sweep sweep);

struct SensitivityPoint {
  Sweep sweep = Sweep::memory;
  std::string program;
  std::string system;
  unsigned value = 0;
  double seconds = 0;
  std::optional<RunCounts> counts;  // of comex
  bool at_least = false;            // it was stopped after so long; or it took so long with more memory, and sat out
};

struct SensitivityProgram {
  std::string name;
  std::uint64_t peak_bytes = 0;
  double native_seconds = 0;
};

struct SpeedUp {
  double times = 0;
  bool at_least = false;
};

struct SensitivityFigures {
  double load_before = 0;  // of the machine, by others: 0 to 1
  std::string prefetch;    // that was used
  unsigned share = 0;      // per cent that was local while other sizes varied
  std::vector<SensitivityProgram> programs;
  std::vector<SensitivityPoint> points;
  std::vector<Skipped> skipped;
  std::vector<Skipped> failed;
  bool interrupted = false;  // this is what was measured until then

  [[nodiscard]] const SensitivityPoint* find(Sweep sweep, std::string_view program, std::string_view system,
                                             unsigned value) const;
  // Every value that was measured for anybody, ascending.
  [[nodiscard]] std::vector<unsigned> values(Sweep sweep) const;
  // How many times faster `system` is with so much memory than the other; nothing where one was not measured, or of
  // `system` is only known that it takes longer.
  [[nodiscard]] std::optional<SpeedUp> speed_up(std::string_view program, std::string_view system,
                                                std::string_view over, unsigned percent) const;
};

}  // namespace comex::bench

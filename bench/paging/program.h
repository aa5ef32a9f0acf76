// Runs a program to its end and takes what it prints. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"

namespace comex::bench {

struct ProgramRun {
  std::string log;  // takes what it writes to stderr; the last line says why it failed
  int cgroup = -1;  // the open cgroup.procs of a control group to join; -1: stays in ours
  Millis limit{600'000};
  std::function<void()> look_after{};  // called every few milliseconds while the program runs
};

struct ProgramResult {
  std::string output;            // what it wrote to stdout
  double seconds = 0;            // from its start to its end
  std::uint64_t peak_bytes = 0;  // the most memory that its largest process had
};

// An error when it ends with anything but 0 or takes longer than the limit; on Ctrl-C it is ended and the error is
// interruption().
Expected<ProgramResult> measure_program(const std::vector<std::string>& command, const ProgramRun& run);
// The same, for whom only the output counts.
Expected<std::string> run_program(const std::vector<std::string>& command, const ProgramRun& run);

}  // namespace comex::bench

// Ctrl-C during a measurement: the loops stop, the stack unwinds, and with it children end and temporary folders go.
#pragma once

#include <signal.h>

#include <array>

#include "base/expected.h"

namespace comex::bench {

// While one lives, SIGINT, SIGTERM and SIGHUP only set a flag. A second one ends the process as usual, in case the
// first is not noticed. At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  static constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_{};
};

// One relaxed load: cheap enough for a measuring loop.
bool interrupted() noexcept;

Error interruption();

}  // namespace comex::bench

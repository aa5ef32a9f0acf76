// Waiting for what a test expects to happen: by looking for it, with a cap so generous that only a bug reaches it.
#pragma once

#include <thread>

#include "base/clock.h"

namespace comex::test {

// Sanitizers and loaded machines make everything slow: this is not how long a thing may take, but when to give up.
inline constexpr Millis kPatience{20'000};

template <typename Condition>
[[nodiscard]] bool wait_until(Condition&& condition, Millis cap = kPatience) {
  const Deadline deadline(cap);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(Millis(1));
  }
  return true;
}

}  // namespace comex::test

// Waits for a descriptor. Fault-path safe: poll(2) and the clock.
#pragma once

#include <poll.h>

#include <cerrno>

#include "base/clock.h"

namespace comex {

// True when `fd` is ready for one of `events` (POLLIN, POLLOUT) or has an error; false when the deadline has passed.
inline bool wait_ready(int fd, short events, const Deadline& deadline) noexcept {
  // Also for a descriptor that is ready all the time and yet brings nothing on, as TLS bytes that make no record.
  while (!deadline.passed()) {
    pollfd p{fd, events, 0};
    const int ready = ::poll(&p, 1, deadline.remaining_ms());
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
  return false;
}

}  // namespace comex

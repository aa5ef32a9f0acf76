// Descriptors of the runtime, out of the way of programs that count on getting small numbers, or use them unasked.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace comex {

// The same file under a high number; `fd` is closed then, or returned if there is none.
inline int out_of_the_way(int fd) noexcept {
  constexpr int kHigh = 512;
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, kHigh);
  if (high >= 0) ::close(fd);
  return high >= 0 ? high : fd;
}

}  // namespace comex

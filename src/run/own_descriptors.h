// The descriptors of the runtime in a program's process. They have high numbers, out of the way of programs that count
// on getting small ones, and the gate knows them: a program that closes all that is open must not close these. Memory
// that is away would read as zeros without the userfaultfd, and pages would go to whatever had a lane's number next.
//
// Thread safety: any thread. Fault path: yes; bare system calls.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/fd.h"
#include "base/mutex.h"

namespace comex {

class OwnDescriptors {
 public:
  // Held while a descriptor of the runtime has whatever number the kernel gave it, and while the program closes numbers
  // that may not be its own.
  Mutex mutex;

  // The same file under a number that is the runtime's from now on. If there are too many, the program may close it.
  int adopt(int fd) noexcept {
    const int high = raise(fd);
    if (high >= 0) ::close(fd);
    return know(high >= 0 ? high : fd);
  }
  Fd adopt(Fd fd) noexcept {
    Fd high(raise(fd.get()));
    Fd kept(std::move(high ? high : fd));
    know(kept.get());
    return kept;
  }
  // Is about to be closed.
  void drop(int fd) noexcept {
    for (auto& one : fds_) {
      int seen = fd + 1;
      if (fd >= 0 && one.compare_exchange_strong(seen, kNone, std::memory_order_acq_rel)) return;
    }
  }
  [[nodiscard]] bool has(std::uint64_t fd) const noexcept {
    const auto number = static_cast<std::uint32_t>(fd);
    return std::any_of(fds_.begin(), fds_.end(), [&](const std::atomic<int>& one) {
      const int seen = one.load(std::memory_order_acquire);
      return seen != kNone && static_cast<std::uint32_t>(seen - 1) == number;
    });
  }
  // Calls f(first, last) for what of these numbers is not the runtime's, in order.
  template <typename F>
  void for_each_other(std::uint32_t first, std::uint32_t last, F&& f) const {
    for (std::uint64_t at = first; at <= last;) {
      std::uint64_t next = std::uint64_t{last} + 1;  // of ours
      for (const auto& one : fds_) {
        const int seen = one.load(std::memory_order_acquire);
        if (seen != kNone && static_cast<std::uint64_t>(seen - 1) >= at) {
          next = std::min(next, static_cast<std::uint64_t>(seen - 1));
        }
      }
      if (at < next) f(static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(next - 1));
      at = next + 1;
    }
  }

 private:
  static constexpr std::size_t kMost = 256;
  static constexpr int kNone = 0;  // else a number and one

  // A high number of the same file; -1 if there is none.
  static int raise(int fd) noexcept {
    constexpr int kHigh = 512;
    return fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, kHigh);
  }
  int know(int fd) noexcept {
    for (auto& one : fds_) {
      int none = kNone;
      if (fd >= 0 && one.compare_exchange_strong(none, fd + 1, std::memory_order_acq_rel)) break;
    }
    return fd;
  }

  std::array<std::atomic<int>, kMost> fds_{};
};

inline constinit OwnDescriptors own_descriptors;

}  // namespace comex

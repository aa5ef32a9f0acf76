// A program may have as many files open as it is allowed to. While this lives there is room for some of the runtime's:
// up to the hard limit, and beyond it for who has the right. What is open stays open when the limit is back.
//
// Other threads of the program that look at the limit meanwhile see it raised, and a process begun meanwhile keeps it:
// so this is for moments when they do not run, or for when there is no other way.
//
// Several at a time share one raise: the last one that goes puts back what the first one found.
// Thread safety: any thread. Fault path: yes; bare system calls. REQUIRES: no fork by another thread meanwhile.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "base/mutex.h"

namespace comex {

class RaisedDescriptorLimit {
 public:
  RaisedDescriptorLimit() noexcept {
    const std::lock_guard lock(mutex_);
    if (users_++ == 0) raise();
  }
  ~RaisedDescriptorLimit() {
    const std::lock_guard lock(mutex_);
    if (--users_ == 0) put_back();
  }
  RaisedDescriptorLimit(const RaisedDescriptorLimit&) = delete;
  RaisedDescriptorLimit& operator=(const RaisedDescriptorLimit&) = delete;

 private:
  static constexpr rlim_t kMore = 1024;  // more than the runtime has

  static void raise() noexcept {
    set_ = false;
    if (prlimit(0, RLIMIT_NOFILE, nullptr, &before_) != 0) return;
    raised_ = {before_.rlim_cur + kMore, std::max(before_.rlim_max, before_.rlim_cur + kMore)};
    set_ = prlimit(0, RLIMIT_NOFILE, &raised_, nullptr) == 0;
    if (set_ || before_.rlim_cur == before_.rlim_max) return;
    raised_ = {before_.rlim_max, before_.rlim_max};
    set_ = prlimit(0, RLIMIT_NOFILE, &raised_, nullptr) == 0;
  }
  static void put_back() noexcept {
    rlimit seen{};
    if (!set_ || prlimit(0, RLIMIT_NOFILE, &before_, &seen) != 0) return;
    // The program has set it meanwhile: that counts.
    const bool ours = seen.rlim_cur == raised_.rlim_cur && seen.rlim_max == raised_.rlim_max;
    if (!ours) (void)prlimit(0, RLIMIT_NOFILE, &seen, nullptr);
  }

  static inline constinit Mutex mutex_;  // guards all below
  static inline constinit std::uint32_t users_ = 0;
  static inline constinit rlimit before_{};
  static inline constinit rlimit raised_{};
  static inline constinit bool set_ = false;
};

}  // namespace comex

#include "bench/interrupt.h"

#include <atomic>

namespace comex::bench {

namespace {

// Relaxed everywhere: nothing is published with it.
std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set by a signal handler");

void note(int) {
  flag.store(true, std::memory_order_relaxed);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  flag.store(false, std::memory_order_relaxed);
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

bool interrupted() noexcept {
  return flag.load(std::memory_order_relaxed);
}

Error interruption() {
  return Error{Errc::io, "interrupted"};
}

}  // namespace comex::bench

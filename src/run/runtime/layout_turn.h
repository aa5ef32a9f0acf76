// What the system calls of Layout have in common (layout.cpp, layout_advise.cpp, layout_lock.cpp).
#pragma once

#include <cstdint>
#include <mutex>

#include "base/mutex.h"
#include "pager/page.h"
#include "run/runtime/crossing.h"
#include "run/runtime/deputy.h"
#include "run/runtime/let.h"
#include "run/runtime/process.h"

namespace comex::runtime {

inline constexpr std::uint64_t kPageMask = kPageSize - 1;

inline std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + kPageMask) & ~kPageMask;
}

inline std::int64_t kernel(std::uint64_t number, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0,
                           std::uint64_t d = 0, std::uint64_t e = 0, std::uint64_t f = 0) {
  return let_filtered({number, {a, b, c, d, e, f}});
}

inline bool failed(std::int64_t result) {
  return result < 0 && result > -4096;
}

// Inside the crossing, and then alone with the layout: in this order, for the one who forks closes the crossing first.
class Turn {
 public:
  explicit Turn(Mutex& mutex) noexcept : inside_(process.crossing, this_thread()->inside), lock_(mutex) {}

 private:
  Inside inside_;
  std::lock_guard<Mutex> lock_;
};

// For what needs descriptors of the runtime. REQUIRES: f() does not wait for the crossing: the caller is inside, if f()
// has to be.
template <typename F>
auto with_ours(F&& f) noexcept {
  ThreadState* const state = this_thread();
  return state != nullptr ? with_descriptors(*state, f) : f();
}

}  // namespace comex::runtime

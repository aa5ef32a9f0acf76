#include "run/runtime/let.h"

#include <signal.h>

#include <cerrno>

#include "run/runtime/gate_entry.h"
#include "run/runtime/process.h"
#include "run/runtime/signals.h"

namespace comex::runtime {
namespace {

bool is_trapped(const Arrival& aside) noexcept {
  constexpr int kSeccomp = 1;  // SYS_SECCOMP
  return aside.signal == SIGSYS && aside.info.si_code == kSeccomp;
}

// `aside`: if it is not 0 the call is not made.
std::int64_t with_open(ThreadState& state, const syscalls::Call& call, std::uint64_t mask, const int& aside) noexcept {
  const auto& a = call.arguments;
  state.waiting = true;
  Signals::block(mask);
  if (state.kept.load(std::memory_order_relaxed) != 0) Signals::give_kept_to_kernel(state);
  const std::int64_t result = comex_gate_wait(call.number, a[0], a[1], a[2], a[3], a[4], a[5], &aside);
  Signals::block(Signals::kButFaults);
  state.waiting = false;
  return result;
}

}  // namespace

std::int64_t let_through(const syscalls::Call& call) noexcept {
  const auto& a = call.arguments;
  return comex_gate_call(call.number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

std::int64_t let_wait(const syscalls::Call& call, std::uint64_t mask) noexcept {
  ThreadState& state = *this_thread();
  state.cut_short = false;
  const std::int64_t result = with_open(state, call, mask, state.aside.signal);
  return result == -EINTR && state.cut_short && state.aside.signal == 0 ? kMakeAgain : result;
}

std::int64_t let_filtered(const syscalls::Call& call) noexcept {
  ThreadState* const state = this_thread();
  if (!process.filtered.load(std::memory_order_relaxed) || state == nullptr || !state->gated) return let_through(call);
  state->wait_mask = state->blocked;
  const std::uint64_t mask = (Signals::kEverything & ~Signals::bit(SIGSYS)) | state->blocked;
  constexpr int kMade = 0;  // whatever came before
  std::int64_t result = kMakeAgain;
  // A SIGSYS that somebody sends keeps it from being made once: others are kept then.
  while (result == kMakeAgain) result = with_open(*state, call, mask, kMade);
  return is_trapped(state->aside) ? -ENOSYS : result;
}

bool tell_trapped(const syscalls::Call& call, std::uint64_t address) noexcept {
  Arrival& aside = this_thread()->aside;
  if (!is_trapped(aside)) return false;
  aside.info.si_syscall = static_cast<int>(call.number);
  aside.info.si_call_addr = reinterpret_cast<void*>(address);
  return true;
}

}  // namespace comex::runtime

#include "run/runtime/thread_state.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <new>

namespace comex::runtime {

static_assert(offsetof(ThreadState, registers) == 0 && offsetof(ThreadState, stack_top) == 120 &&
              offsetof(ThreadState, first_mask) == 128 && offsetof(Registers, rsp) == 104);

Threads::Threads(std::byte* memory, std::byte* stacks) noexcept
    : states_(reinterpret_cast<ThreadState*>(memory)), stacks_(stacks) {}

ThreadState* Threads::enter(std::uint32_t owner) noexcept {
  for (std::uint32_t i = 0; i < kMost; ++i) {
    ThreadState& state = states_[i];
    std::uint32_t nobody = 0;
    if (!state.owner.compare_exchange_strong(nobody, owner, std::memory_order_acq_rel)) continue;
    std::uint32_t seen = used_.load(std::memory_order_relaxed);
    while (seen <= i && !used_.compare_exchange_weak(seen, i + 1, std::memory_order_seq_cst)) {
    }
    state.pins_used = 0;
    state.inside = 0;
    state.guest = false;
    state.actions = nullptr;
    state.apart = false;
    state.bare = false;
    state.beside = false;
    if (stacks_ != nullptr) state.stack_top = stacks_ + (i + 1) * ThreadState::kStackBytes;
    state.waiting = false;
    state.aside.signal = 0;
    state.aside_masked = false;
    state.wait_masked = false;
    state.kept.store(0, std::memory_order_relaxed);
    state.cut_short = false;
    state.stray = {};
    state.open_signals.store(0, std::memory_order_relaxed);
    state.blocked = 0;
    state.program_stack = no_stack();
    state.faulter.history = {};
    return &state;
  }
  return nullptr;
}

void Threads::clear(ThreadState& state) noexcept {
  for (auto& pin : state.pins) pin.count.store(0, std::memory_order_relaxed);
  if (state.holds_everything) let_go();
  state.holds_everything = false;
  state.open_signals.store(0, std::memory_order_relaxed);
}

void Threads::leave(ThreadState& state) noexcept {
  clear(state);
  state.owner.store(0, std::memory_order_release);
}

void Threads::only(ThreadState& state) noexcept {
  const std::uint32_t used = used_.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < used; ++i) {
    if (&states_[i] != &state && states_[i].owner.load(std::memory_order_relaxed) != 0) leave(states_[i]);
  }
  everything_.store(0, std::memory_order_seq_cst);
}

// One that has executed a program, or was killed, has left its state behind.
bool Threads::any_beside() const noexcept {
  const std::uint32_t used = used_.load(std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < used; ++i) {
    const std::uint32_t owner = states_[i].owner.load(std::memory_order_acquire);
    if (owner != 0 && states_[i].beside && (kill(static_cast<pid_t>(owner), 0) == 0 || errno != ESRCH)) return true;
  }
  return false;
}

bool Threads::anybody_has(const KernelAction* actions) const noexcept {
  const std::uint32_t used = used_.load(std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < used; ++i) {
    if (states_[i].owner.load(std::memory_order_acquire) != 0 && states_[i].actions == actions) return true;
  }
  return false;
}

std::uint64_t Threads::open_signals() const noexcept {
  std::uint64_t open = 0;
  const std::uint32_t used = used_.load(std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < used; ++i) open |= states_[i].open_signals.load(std::memory_order_relaxed);
  return open;
}

std::uint64_t Threads::pinned(BlockNo block) const noexcept {
  if (everything_.load(std::memory_order_seq_cst) > 0) return ~std::uint64_t{0};
  const std::uint64_t first = block.first().value;
  std::uint64_t mask = 0;
  const std::uint32_t used = used_.load(std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < used; ++i) {
    for (const PinnedRange& pin : states_[i].pins) {
      const std::uint64_t count = pin.count.load(std::memory_order_seq_cst);
      if (count == 0) continue;
      const std::uint64_t begin = pin.first.load(std::memory_order_relaxed);
      const std::uint64_t from = std::max(begin, first);
      const std::uint64_t to = std::min(begin + count, first + kBlockPages);
      if (from < to) mask |= slots_below(static_cast<std::uint32_t>(to - from)) << (from - first);
    }
  }
  return mask;
}

void PinFrame::add_everything() noexcept {
  if (state_.holds_everything) return;
  threads_.hold_everything();
  // In the state as well: one that ends in the middle of a call (exec) leaves nothing behind.
  state_.holds_everything = everything_ = true;
}

void PinFrame::let_everything_go() noexcept {
  state_.holds_everything = false;
  threads_.let_go();
}

void PinFrame::add(PageRun pages) noexcept {
  if (pages.count == 0 || state_.holds_everything) return;
  if (state_.pins_used == ThreadState::kPins) return add_everything();
  PinnedRange& pin = state_.pins[state_.pins_used++];
  pin.first.store(pages.first.value, std::memory_order_relaxed);
  // seq_cst, against eviction, which marks a page busy and then looks here: see PageTable::try_lock.
  pin.count.store(pages.count, std::memory_order_seq_cst);
}

}  // namespace comex::runtime

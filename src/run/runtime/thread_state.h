// What the runtime knows of each thread of the program: its selector, the pages pinned for the call it is in, what it
// needs to resolve its faults.
//
// States lie in one array that is made at the start; a thread takes one when it is born and leaves it when it ends.
// Thread safety: a state is its thread's own, but for the pins, which eviction reads. Fault path: everything.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "pager/pager.h"
#include "run/runtime/signals.h"

namespace comex {
struct Tally;
}

namespace comex::runtime {

// Registers of a thread at a system call, in the order gate_entry.cpp knows.
struct Registers {
  std::uint64_t r8, r9, r10, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rsp, rip;
};

struct PinnedRange {
  std::atomic<std::uint64_t> first{0};  // page
  std::atomic<std::uint64_t> count{0};  // 0: none
};

// Memory that a thread touched and that is not ours; see Layout::losses().
struct Stray {
  const void* address = nullptr;
  std::uint64_t losses = 0;
  bool operator==(const Stray&) const = default;
};

struct ThreadState {
  static constexpr std::size_t kPins = 24;
  static constexpr std::size_t kStackBytes = 128 << 10;  // used as far as it is touched

  // First, and in this order: gate_entry.cpp counts on it.
  Registers registers{};
  std::byte* stack_top = nullptr;  // of the stack that handlers run on; see delivery.h
  std::uint64_t first_mask = 0;    // that a new thread begins with

  // 0: system calls go through; 1: they come to the gate. Read by the kernel.
  volatile std::uint8_t selector = 0;
  bool gated = false;                   // it is looked at
  std::atomic<std::uint32_t> owner{0};  // thread id; 0: free
  Faulter faulter;
  Tally* tally = nullptr;  // where it counts
  std::array<PinnedRange, kPins> pins;
  std::uint32_t pins_used = 0;
  std::uint32_t inside = 0;  // see run/runtime/crossing.h
  bool holds_everything = false;

  // A call that was let through is under way, and signals of the program may come: they are put aside.
  volatile bool waiting = false;
  Arrival aside;
  bool aside_masked = false;     // everything is blocked in the program since it came, and
  std::uint64_t aside_mask = 0;  // ... this was before
  std::uint64_t wait_mask = 0;   // what the program has blocked while a call of the gate's is under way
  bool wait_masked = false;      // ... was given with the call, which a signal ended
  // Of our signals, what somebody has sent and the program is to get later: one of each, as the kernel keeps them.
  std::atomic<std::uint64_t> kept{0};
  siginfo_t kept_info[2]{};
  bool cut_short = false;  // by one that was kept: a call that ends with EINTR is to be made again
  Stray stray;             // if that is to be touched once more
  // While it is in a handler of ours: what the program has not blocked.
  std::atomic<std::uint64_t> open_signals{0};
  std::uint64_t blocked = 0;           // of our signals, what the program believes to have blocked
  stack_t program_stack = no_stack();  // as of sigaltstack(2)
  // A task of another process that shares this memory (vfork): it leaves by exec or exit, and the memory stays.
  bool guest = false;
  // ... whose signal actions are not those of the process (no CLONE_SIGHAND), or which shares those of such a one.
  // nullptr: they are.
  KernelAction* actions = nullptr;
  KernelAction* own_actions = nullptr;  // where they are kept; for the next owner, too
  // Its descriptors are not those of the process (no CLONE_FILES): see run/runtime/deputy.h.
  bool apart = false;
  bool keeps_deputy = false;
  bool bare = false;  // ... and since before the process woke: not even a copy of the runtime's is among them
  // A guest, or apart, and runs on beside the threads of the process: these can be stopped, it cannot.
  bool beside = false;
};

class Threads final : public Pins {
 public:
  static constexpr std::uint32_t kMost = 4096;

  // `memory` for kMost states, zeroed; `stacks` for as many stacks of handlers, or nullptr if there are to be none.
  explicit Threads(std::byte* memory, std::byte* stacks = nullptr) noexcept;
  static constexpr std::size_t bytes() { return kMost * sizeof(ThreadState); }
  static constexpr std::size_t stack_bytes() { return kMost * ThreadState::kStackBytes; }

  // nullptr if there are too many.
  ThreadState* enter(std::uint32_t owner) noexcept;
  void leave(ThreadState& state) noexcept;
  // All of leaving but that the state is free.
  void clear(ThreadState& state) noexcept;
  // After a fork, in the child: there is this thread and no other.
  void only(ThreadState& state) noexcept;

  [[nodiscard]] std::uint64_t pinned(BlockNo block) const noexcept override;
  // While anybody holds this, every page counts as pinned.
  void hold_everything() noexcept { everything_.fetch_add(1, std::memory_order_seq_cst); }
  void let_go() noexcept { everything_.fetch_sub(1, std::memory_order_seq_cst); }

  // Whether a task may be running beside the threads of the process: see ThreadState::beside.
  [[nodiscard]] bool any_beside() const noexcept;

  // Whether these are the actions of a thread or task that there is.
  [[nodiscard]] bool anybody_has(const KernelAction* actions) const noexcept;

  // What at least one thread, which is in a handler of ours, has not blocked.
  [[nodiscard]] std::uint64_t open_signals() const noexcept;

  // Whose stack this address is on; nullptr if nobody's.
  [[nodiscard]] ThreadState* standing_on(const void* address) const noexcept {
    const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(address) - stacks_);
    return stacks_ != nullptr && at < stack_bytes() ? &states_[at / ThreadState::kStackBytes] : nullptr;
  }

  // Calls f(thread id) for each thread there is.
  template <typename F>
  void for_each(F&& f) const noexcept {
    const std::uint32_t used = used_.load(std::memory_order_seq_cst);
    for (std::uint32_t i = 0; i < used; ++i) {
      if (const std::uint32_t owner = states_[i].owner.load(std::memory_order_acquire); owner != 0) f(owner);
    }
  }

 private:
  ThreadState* const states_;
  std::byte* const stacks_;
  std::atomic<std::uint32_t> used_{0};  // none beyond this index was ever entered
  std::atomic<std::uint32_t> everything_{0};
};

// Pins for the length of a call; later ones are inside earlier ones.
class PinFrame {
 public:
  PinFrame(Threads& threads, ThreadState& state) noexcept
      : threads_(threads), state_(state), before_(state.pins_used) {}
  ~PinFrame() {
    while (state_.pins_used > before_) state_.pins[--state_.pins_used].count.store(0, std::memory_order_release);
    if (everything_) let_everything_go();
  }
  PinFrame(const PinFrame&) = delete;
  PinFrame& operator=(const PinFrame&) = delete;

  // From now on eviction leaves these pages alone; what it has begun it finishes: look at the entries afterwards.
  void add(PageRun pages) noexcept;
  // As if every page was added.
  void add_everything() noexcept;

 private:
  void let_everything_go() noexcept;

  Threads& threads_;
  ThreadState& state_;
  const std::uint32_t before_;
  bool everything_ = false;
};

}  // namespace comex::runtime

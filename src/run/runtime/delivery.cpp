#include "run/runtime/delivery.h"

#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "run/runtime/faults.h"
#include "run/runtime/gate_entry.h"
#include "run/runtime/process.h"
#include "run/runtime/program_memory.h"

namespace comex::runtime {
namespace {

constexpr unsigned kAutoDisarm = 1U << 31;  // SS_AUTODISARM
constexpr std::uint64_t kRedZone = 128;
constexpr std::uint64_t kLeastStack = 2048;  // MINSIGSTKSZ
constexpr std::size_t kLegacyBytes = 512;    // of the floating-point state: what every processor has

// As the kernel has it on x86-64; libc's is longer.
struct Context {
  std::uint64_t flags;
  std::uint64_t link;
  stack_t stack;
  mcontext_t machine;
  std::uint64_t mask;
};
static_assert(offsetof(Context, machine) == offsetof(ucontext_t, uc_mcontext));
static_assert(offsetof(Context, mask) == offsetof(ucontext_t, uc_sigmask));

struct Frame {
  void* restorer;
  Context context;
  siginfo_t info;
};
static_assert(sizeof(siginfo_t) == 128);

// What the kernel says about the floating-point state, in the last bytes of its first part.
struct ExtendedState {
  static constexpr std::size_t kAt = 464;
  static constexpr std::uint32_t kMagic = 0x46505853;

  std::uint32_t magic;
  std::uint32_t bytes;  // in all
};

ExtendedState extended(const void* state) noexcept {
  ExtendedState found{};
  std::memcpy(&found, static_cast<const std::byte*>(state) + ExtendedState::kAt, sizeof found);
  if (found.magic != ExtendedState::kMagic) found.bytes = kLegacyBytes;
  return found;
}

std::uint64_t get(const mcontext_t& machine, int index) noexcept {
  return static_cast<std::uint64_t>(machine.gregs[index]);
}

bool is_on(const stack_t& stack, std::uint64_t pointer) noexcept {
  const auto base = reinterpret_cast<std::uint64_t>(stack.ss_sp);
  return (stack.ss_flags & (SS_DISABLE | static_cast<int>(kAutoDisarm))) == 0 && pointer > base &&
         pointer - base <= stack.ss_size;
}

// What the kernel says of a stack that never was has no flag to say so.
stack_t as_told(const stack_t& stack) noexcept {
  return stack.ss_size == 0 ? no_stack() : stack;
}

stack_t registration(const ThreadState& state) noexcept {
  stack_t ours{};
  ours.ss_sp = state.stack_top - ThreadState::kStackBytes;
  ours.ss_flags = static_cast<int>(kAutoDisarm);
  ours.ss_size = ThreadState::kStackBytes;
  return ours;
}

// Where the program's handler is to have its frame; above it, what it stands on.
std::uint64_t stack_for(ThreadState& state, const KernelAction& action, std::uint64_t pointer) noexcept {
  const stack_t& other = state.program_stack;
  const bool switches = (action.flags & SA_ONSTACK) != 0 && (other.ss_flags & SS_DISABLE) == 0;
  if (!switches || is_on(other, pointer)) return pointer - kRedZone;
  return reinterpret_cast<std::uint64_t>(other.ss_sp) + other.ss_size;
}

// The program has no right to what the kernel refuses to restore: it would be killed, as it is here.
[[noreturn]] void die(int signal) noexcept {
  Signals::reset(signal);
  for (;;) {
    const auto self = static_cast<std::uint64_t>(comex_gate_call(SYS_gettid, 0, 0, 0, 0, 0, 0));
    std::uint64_t none = 0;
    comex_gate_call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<std::uint64_t>(&none), 0, sizeof none, 0, 0);
    comex_gate_call(SYS_tkill, self, static_cast<std::uint64_t>(signal), 0, 0, 0, 0);
  }
}

// Of the state at `from`, what the kernel would restore.
void restore_floating_point(mcontext_t& machine, std::uint64_t from) noexcept {
  if (from == 0) {
    machine.fpregs = nullptr;  // as at the beginning
    return;
  }
  auto* const into = reinterpret_cast<std::byte*>(machine.fpregs);
  const std::uint32_t bytes = extended(into).bytes;
  if (!copy_in(from, into, kLegacyBytes)) die(SIGSEGV);
  const ExtendedState theirs = extended(into);
  if (theirs.magic != ExtendedState::kMagic) return;
  const bool fits = theirs.bytes == bytes && copy_in(from + kLegacyBytes, into + kLegacyBytes, bytes - kLegacyBytes);
  if (!fits) die(SIGSEGV);
}

}  // namespace

void use_stack(ThreadState& state) noexcept {
  const stack_t ours = registration(state);
  comex_gate_call(SYS_sigaltstack, reinterpret_cast<std::uint64_t>(&ours), 0, 0, 0, 0, 0);
}

void use_stack_from(ThreadState& state, ucontext_t& frame) noexcept {
  const stack_t ours = registration(state);
  if (frame.uc_stack.ss_sp == ours.ss_sp) return;
  state.program_stack = as_told(frame.uc_stack);
  frame.uc_stack = ours;
}

void take_over(ThreadState& state, ucontext_t& frame) noexcept {
  use_stack_from(state, frame);
  note_made(frame);
  Signals::set_mask(state, frame, *reinterpret_cast<const std::uint64_t*>(&frame.uc_sigmask));
}

void deliver(ThreadState& state, const Arrival& arrival, ucontext_t& frame, const std::uint64_t* blocked) noexcept {
  const KernelAction& action = arrival.action;
  mcontext_t& machine = frame.uc_mcontext;
  std::uint64_t at = stack_for(state, action, get(machine, REG_RSP));
  const std::uint32_t bytes = machine.fpregs != nullptr ? extended(machine.fpregs).bytes : 0;
  at = (at - bytes) & ~std::uint64_t{63};
  auto* const floating = reinterpret_cast<std::byte*>(at);
  at = ((at - sizeof(Frame)) & ~std::uint64_t{15}) - sizeof(std::uint64_t);  // as after a call

  Frame made{};
  made.restorer = action.restorer;
  std::memcpy(&made.context, &frame, sizeof made.context);
  made.context.link = 0;
  made.context.stack = state.program_stack;
  made.context.mask |= state.blocked;
  made.info = arrival.info;
  // Into the program's memory, which is brought in first: faults may be blocked here. Where there is none the kernel
  // kills, as it would.
  const PageRun pages = PageRun::of(at, reinterpret_cast<std::uint64_t>(floating) + bytes - at);
  PinFrame pins(*process.threads, state);
  pins.add(pages);
  settle(pages, true);
  if (bytes > 0) {
    made.context.machine.fpregs = reinterpret_cast<fpregset_t>(floating);
    std::memcpy(floating, machine.fpregs, bytes);
  }
  auto* const target = reinterpret_cast<Frame*>(at);
  std::memcpy(target, &made, sizeof made);

  if ((static_cast<unsigned>(state.program_stack.ss_flags) & kAutoDisarm) != 0) state.program_stack = no_stack();
  constexpr greg_t kDirection = 0x400, kTrap = 0x100, kResume = 0x10000;
  machine.gregs[REG_RIP] = reinterpret_cast<greg_t>(action.handler);
  machine.gregs[REG_RSP] = reinterpret_cast<greg_t>(target);
  machine.gregs[REG_RDI] = arrival.signal;
  machine.gregs[REG_RSI] = reinterpret_cast<greg_t>(&target->info);
  machine.gregs[REG_RDX] = reinterpret_cast<greg_t>(&target->context);
  machine.gregs[REG_RAX] = 0;
  machine.gregs[REG_EFL] &= ~(kDirection | kTrap | kResume);
  machine.fpregs = nullptr;
  std::uint64_t mask = (blocked != nullptr ? *blocked : made.context.mask) | action.mask;
  if ((action.flags & SA_NODEFER) == 0) mask |= Signals::bit(arrival.signal);
  Signals::set_mask(state, frame, mask);
}

void restore_mask(ThreadState& state, ucontext_t& frame) noexcept {
  if (!state.aside_masked) return;
  mask_of(frame) = Signals::open(state.aside_mask);
  state.aside_masked = false;
}

void deliver_aside(ThreadState& state, ucontext_t& frame) noexcept {
  if (state.aside.signal != 0) {
    const Arrival& aside = state.aside;
    restore_mask(state, frame);
    // By the handler of another, which has come since.
    const bool is_blocked = (state.blocked & Signals::bit(aside.signal)) != 0 && !state.wait_masked;
    if (is_blocked) {
      Signals::keep(state, aside.signal, aside.info);
    } else {
      deliver(state, aside, frame, state.wait_masked ? &state.wait_mask : nullptr);
    }
    state.wait_masked = false;
    state.aside.signal = 0;
  }
  if ((state.kept.load(std::memory_order_relaxed) & ~state.blocked) != 0) signals.deliver_kept(state, frame);
}

void return_from_handler(ThreadState& state, ucontext_t& frame) noexcept {
  Context theirs;
  if (!copy_in(get(frame.uc_mcontext, REG_RSP), &theirs, sizeof theirs)) die(SIGSEGV);
  mcontext_t& machine = frame.uc_mcontext;
  std::memcpy(machine.gregs, theirs.machine.gregs, sizeof machine.gregs);
  note_made(frame);
  restore_floating_point(machine, reinterpret_cast<std::uint64_t>(theirs.machine.fpregs));
  Signals::set_mask(state, frame, theirs.mask);
  if (!is_on(state.program_stack, get(machine, REG_RSP))) state.program_stack = as_told(theirs.stack);
}

std::int64_t set_program_stack(ThreadState& state, const ucontext_t& frame, std::uint64_t next,
                               std::uint64_t previous) noexcept {
  const stack_t before = state.program_stack;
  const bool on_it = is_on(before, get(frame.uc_mcontext, REG_RSP));
  if (next != 0) {
    stack_t wanted{};
    if (!copy_in(next, &wanted, sizeof wanted)) return -EFAULT;
    const unsigned flags = static_cast<unsigned>(wanted.ss_flags) & ~kAutoDisarm;
    if (on_it) return -EPERM;
    if (flags != 0 && flags != SS_DISABLE && flags != SS_ONSTACK) return -EINVAL;
    if (flags == SS_DISABLE) {
      wanted = no_stack();
    } else if (wanted.ss_size < kLeastStack) {
      return -ENOMEM;
    }
    wanted.ss_flags = static_cast<int>(static_cast<unsigned>(wanted.ss_flags) & (kAutoDisarm | SS_DISABLE));
    state.program_stack = wanted;
  }
  if (previous == 0) return 0;
  stack_t told = before;
  if (on_it) told.ss_flags |= SS_ONSTACK;
  return copy_out(previous, &told, sizeof told) ? 0 : -EFAULT;
}

}  // namespace comex::runtime

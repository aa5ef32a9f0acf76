#include "run/runtime/gate.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "base/clock.h"
#include "run/own_descriptors.h"
#include "run/runtime/delivery.h"
#include "run/runtime/deputy.h"
#include "run/runtime/direct.h"
#include "run/runtime/faults.h"
#include "run/runtime/gate_entry.h"
#include "run/runtime/lasting.h"
#include "run/runtime/layout.h"
#include "run/runtime/let.h"
#include "run/runtime/memory_file.h"
#include "run/runtime/pieces.h"
#include "run/runtime/process.h"
#include "run/runtime/program_memory.h"
#include "run/runtime/signals.h"
#include "run/runtime/tasks.h"
#include "run/runtime/world.h"
#include "run/syscalls/syscall_ranges.h"
#include "run/syscalls/syscall_table.h"

namespace comex::runtime {
namespace {

using syscalls::Call;
using syscalls::Class;
using syscalls::Entry;
using syscalls::Trait;

// Pins and makes resident what a call touches.
class Preparation final : public syscalls::Visitor {
 public:
  // `writable`: as if the kernel wrote to all of it.
  explicit Preparation(ThreadState& state, bool writable = false)
      : pins_(*process.threads, state), writable_(writable) {}

  bool range(const syscalls::Range& range) noexcept override {
    const PageRun pages = PageRun::of(range.address, range.bytes);
    if (pages.count == 0) return true;
    pins_.add(pages);
    settle(pages, range.kernel_writes || writable_);
    return true;
  }
  bool read(std::uintptr_t address, void* to, std::size_t bytes) noexcept override {
    return copy_in(address, to, bytes);
  }
  void pin_everything() noexcept { pins_.add_everything(); }
  bool is_self(std::uint64_t number) noexcept override {
    return number == static_cast<std::uint64_t>(getpid()) || number == static_cast<std::uint64_t>(gettid());
  }

 private:
  PinFrame pins_;
  const bool writable_;
};

// The mask that the kernel puts in place while a call waits: a copy, for as long as this lives.
class WaitMask {
 public:
  explicit WaitMask(Call& call) {
    auto& a = call.arguments;
    switch (call.number) {
      case SYS_ppoll: replace(a[3], a[4]); return;
      case SYS_epoll_pwait:
      case kEpollPwait2: replace(a[4], a[5]); return;
      case SYS_rt_sigsuspend: replace(a[0], a[1]); return;
      case SYS_pselect6:
      case SYS_io_pgetevents:
        if (a[5] == 0 || !copy_in(a[5], &pair_, sizeof pair_)) return;
        replace(pair_.mask, pair_.bytes);
        a[5] = reinterpret_cast<std::uint64_t>(&pair_);
        return;
      default: return;
    }
  }
  WaitMask(const WaitMask&) = delete;
  WaitMask& operator=(const WaitMask&) = delete;

  [[nodiscard]] bool given() const { return given_; }
  [[nodiscard]] std::uint64_t wanted() const { return wanted_; }

 private:
  static constexpr std::uint64_t kEpollPwait2 = 441;

  // Whatever the kernel will refuse stays as it is.
  void replace(std::uint64_t& address, std::uint64_t bytes) {
    if (address == 0 || bytes != sizeof wanted_ || !copy_in(address, &wanted_, sizeof wanted_)) return;
    given_ = true;
    address = reinterpret_cast<std::uint64_t>(&wanted_);
  }

  struct {
    std::uint64_t mask, bytes;
  } pair_{};
  std::uint64_t wanted_ = 0;
  bool given_ = false;
};

// A call that takes a signal as its result (sigwait): what calls a thread out of direct calls is not for the program,
// and it waits on, for as long as is left.
class AwaitedSignal {
 public:
  explicit AwaitedSignal(Call& call) : waits_(call.number == SYS_rt_sigtimedwait), told_(call.arguments[1]) {
    if (!waits_) return;
    if (told_ == 0) call.arguments[1] = reinterpret_cast<std::uint64_t>(&info_);
    auto& limit = call.arguments[2];
    // What the kernel will refuse stays as it is.
    if (limit == 0 || !copy_in(limit, &left_, sizeof left_)) return;
    if (left_.tv_sec < 0 || left_.tv_sec > kLongest || left_.tv_nsec < 0 || left_.tv_nsec >= kSecond) return;
    end_ = Clock::now() + std::chrono::seconds(left_.tv_sec) + Nanos(left_.tv_nsec);
    limit = reinterpret_cast<std::uint64_t>(&left_);
  }
  AwaitedSignal(const AwaitedSignal&) = delete;
  AwaitedSignal& operator=(const AwaitedSignal&) = delete;

  // Whether the call is to be made once more, for what is left of its time.
  bool waits_on(std::int64_t result) noexcept {
    if (!waits_ || result != SIGSYS || (told_ != 0 && !copy_in(told_, &info_, sizeof info_))) return false;
    if (!is_call_out(info_)) return false;
    const std::int64_t left = std::max<std::int64_t>(Nanos(end_ - Clock::now()).count(), 0);
    left_ = timespec{left / kSecond, left % kSecond};
    return true;
  }

 private:
  static constexpr std::int64_t kSecond = 1'000'000'000;
  static constexpr std::int64_t kLongest = 1'000'000'000;  // seconds, so that nothing overflows

  const bool waits_;
  const std::uint64_t told_;  // where the program wants to be told what came; 0: nowhere
  siginfo_t info_{};
  timespec left_{};
  Clock::time_point end_{};
};

// Newer than some headers.
constexpr std::uint64_t kCloseRange = 436;
constexpr std::uint64_t kSeal = 462;
constexpr std::uint64_t kUnshareRange = 2;  // CLOSE_RANGE_UNSHARE

// The kernel takes hold of a futex's page for writing first, whatever the operation, and a guarded one is refused.
bool is_futex(const Call& call, const Entry& entry) {
  constexpr std::uint64_t kFirst = 449;  // futex_waitv, and those that came after it
  constexpr std::uint64_t kLast = 456;
  return entry.operations == syscalls::Family::futex || (call.number >= kFirst && call.number <= kLast);
}

// Where faults are messages, the kernel waits for a page like everybody else. Eviction must see then what it pins.
void prepare(const Call& call, Preparation& preparation) {
  const bool needed = process.memory.delivery() == Delivery::inline_signal || !process.memory.sees_pins();
  if (needed) (void)syscalls::enumerate(call, preparation);
}

// Lets a call through with everything it touches in place.
std::int64_t in_one(Call call, const Entry& entry, ucontext_t& context, bool may_wait) {
  ThreadState& state = *this_thread();
  Preparation preparation(state, is_futex(call, entry));
  prepare(call, preparation);
  WaitMask mask(call);
  const std::uint64_t blocked = mask_of(context) | state.blocked;
  state.wait_mask = mask.given() ? mask.wanted() : blocked;
  AwaitedSignal awaited(call);
  const auto make = [&] {
    std::int64_t result = 0;
    do result = may_wait ? let_wait(call, blocked) : let_through(call);
    while (awaited.waits_on(result));
    return result;
  };
  std::int64_t result = make();
  if (const auto touched = result == -EIO ? touched_as_file(call) : std::nullopt) {
    preparation.range(*touched);
    result = make();
  }
  state.wait_masked = may_wait && mask.given() && result == -EINTR && state.aside.signal != 0;
  return result;
}

// What a call may have pinned: there are other threads, and the program has to go on.
std::uint64_t most_pinned() {
  constexpr std::uint64_t kLeast = 1 << 20;
  constexpr std::uint64_t kShare = 8;
  return std::max(process.room->budget.limit.load(std::memory_order_relaxed) * kPageSize / kShare, kLeast);
}

std::int64_t prepared(const Call& call, const Entry& entry, ucontext_t& context) {
  // A filter of the program's may have a call stopped by SIGSYS, which must not be blocked then.
  const bool waits = (entry.traits & Trait::blocks) || process.filtered.load(std::memory_order_relaxed);
  const bool pins = process.memory.delivery() == Delivery::inline_signal;
  if (entry.cut == syscalls::Cut::never || !pins) return in_one(call, entry, context, waits);
  LongTransfer transfer(call, most_pinned());
  if (!transfer.is_long()) return in_one(call, entry, context, waits);
  return transfer.run(
      [&](const Call& piece, bool goes_on) { return in_one(piece, entry, context, waits && !goes_on); });
}

std::int64_t layout_call(const Call& call, const Entry& entry, ucontext_t& context) {
  const auto& a = call.arguments;
  switch (call.number) {
    case SYS_mmap: return layout.map(a[0], a[1], a[2], a[3], a[4], a[5]);
    case SYS_munmap: return layout.unmap(a[0], a[1]);
    case SYS_mremap: return layout.remap(a[0], a[1], a[2], a[3], a[4]);
    case SYS_mprotect:
    case SYS_pkey_mprotect: return layout.protect(call.number, a[0], a[1], a[2], a[3]);
    case SYS_madvise: return layout.advise(a[0], a[1], a[2]);
    case SYS_brk: return layout.set_break(a[0]);
    case SYS_mlock:
    case SYS_mlock2: return layout.lock(call.number, a[0], a[1], a[2]);
    case SYS_mlockall: return layout.lock_all(a[0]);
    case SYS_munlockall: return layout.unlock_all();
    case SYS_shmat: return layout.attach(a[0], a[1], a[2]);
    case SYS_process_madvise: {
      const auto result = layout.advise_pieces(a[0], a[1], a[2], a[3], a[4]);
      return result ? *result : prepared(call, entry, context);
    }
    case kSeal:
      layout.leave_alone(a[0], a[0] + a[1]);  // it cannot be taken away any more
      return prepared(call, entry, context);
    default: return prepared(call, entry, context);
  }
}

std::int64_t signal_call(const Call& call, const Entry& entry, ucontext_t& context) {
  const auto& a = call.arguments;
  switch (call.number) {
    case SYS_rt_sigaction:
      return a[3] != sizeof(std::uint64_t) ? -EINVAL : signals.action(static_cast<int>(a[0]), a[1], a[2]);
    case SYS_rt_sigprocmask:
      return a[3] != sizeof(std::uint64_t) ? -EINVAL : Signals::mask(static_cast<int>(a[0]), a[1], a[2], context);
    case SYS_sigaltstack: return set_program_stack(*this_thread(), context, a[0], a[1]);
    default: return prepared(call, entry, context);
  }
}

std::int64_t lasting_call(const Call& call, const Entry& entry, ucontext_t& context) {
  std::int64_t result = 0;
  return allow_lasting(call, result) ? prepared(call, entry, context) : result;
}

// The process ends, or becomes another program: all its threads do, and the kernel looks at the mutexes they hold.
// Those of a guest it does not know.
std::int64_t last_call(const Call& call, ucontext_t& context) {
  ThreadState& mine = *this_thread();
  Preparation preparation(mine);
  prepare(call, preparation);
  if (!mine.guest) {
    preparation.pin_everything();
    settle_robust_lists();
  }
  // Not with the mask of a handler of ours: another program begins with it, and with what waits for it to be opened.
  mine.wait_mask = mask_of(context) | mine.blocked;
  return let_wait(call, mine.wait_mask);
}

std::int64_t task_call(const Call& call, const Entry& entry, ucontext_t& context) {
  switch (call.number) {
    case SYS_clone: return clone_task(context);
    case SYS_clone3: return -ENOSYS;  // libc knows what to do then: clone
    case SYS_fork:
    case SYS_vfork: return fork_task(context);
    case SYS_exit: exit_thread(call.arguments[0]);
    case SYS_exit_group:
    case SYS_execve:
    case SYS_execveat: return last_call(call, context);
    default: return prepared(call, entry, context);
  }
}

// Makes a call that may give this thread a table of descriptors of its own, if it is to.
template <typename F>
std::int64_t with_own_table(bool wanted, F&& call) {
  ThreadState& state = *this_thread();
  const bool may = wanted && !state.apart && deputy.start();
  const std::int64_t result = call();
  if (may && result >= 0) state.apart = state.beside = true;
  return result;
}

std::int64_t close_others(const Call& call) {
  const auto& a = call.arguments;
  if (a[0] > a[1]) return let_filtered(call);  // an error
  std::int64_t result = 0;
  const auto close = [&](std::uint32_t first, std::uint32_t last) {
    if (result == 0) result = let_filtered(Call{call.number, {first, last, a[2]}});
  };
  own_descriptors.for_each_other(static_cast<std::uint32_t>(a[0]), static_cast<std::uint32_t>(a[1]), close);
  return result;
}

// To the program, what is ours is not open. Some close whatever number there is, so ours must not be on their way;
// inside the crossing, as a child must not find the mutex held.
std::int64_t descriptor_call(const Call& call, const Entry& entry, ucontext_t& context) {
  const auto& a = call.arguments;
  const auto alone = [&](auto&& f) {
    const Inside inside(process.crossing, this_thread()->inside);
    const std::lock_guard lock(own_descriptors.mutex);
    return f();
  };
  const auto is_theirs = [](std::uint64_t fd) {
    return !own_descriptors.has(fd) && comex_gate_call(SYS_fcntl, fd, F_GETFD, 0, 0, 0, 0) >= 0;
  };
  switch (call.number) {
    // What is theirs stays so until they close it: that may take a while, and needs no lock.
    case SYS_close: return alone([&] { return is_theirs(a[0]); }) ? prepared(call, entry, context) : -EBADF;
    case SYS_dup2:
    case SYS_dup3:
      return alone(
          [&] { return own_descriptors.has(a[0]) || own_descriptors.has(a[1]) ? -EBADF : let_filtered(call); });
    case kCloseRange:
      return with_own_table(a[2] & kUnshareRange, [&] { return alone([&] { return close_others(call); }); });
    default: return prepared(call, entry, context);
  }
}

// From now on whoever traces this thread is stopped at every signal it gets, ours among them, and does not know what
// they are. Such a thread is about to be another program: it goes on without us.
std::int64_t be_traced(const Call& call) {
  layout.leave_everything_alone();
  const std::int64_t result = let_filtered(call);
  comex_gate_call(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0, 0);
  this_thread()->gated = false;
  return result;
}

// Whether it may give the thread a filter of system calls.
bool may_filter(const Call& call) {
  constexpr std::uint64_t kFilterMode = 1;  // SECCOMP_SET_MODE_FILTER
  const auto& a = call.arguments;
  return call.number == SYS_seccomp ? a[0] == kFilterMode : call.number == SYS_prctl && a[0] == PR_SET_SECCOMP;
}

std::int64_t serve(const Call& call, ucontext_t& context) {
  const Entry& entry = syscalls::entry(call.number);
  if (may_filter(call)) expect_filters();
  if (call.number == SYS_ptrace && call.arguments[0] == PTRACE_TRACEME) return be_traced(call);
  // With a key the program's memory would be closed to our handlers, and to the calls they make. There are none, as on
  // a processor without.
  if (call.number == SYS_pkey_alloc) return -ENOSPC;
  if (call.number == SYS_unshare) {
    return with_own_table((call.arguments[0] & CLONE_FILES) != 0, [&] { return prepared(call, entry, context); });
  }
  switch (syscalls::class_of(call)) {
    case Class::layout: return layout_call(call, entry, context);
    case Class::signal: return signal_call(call, entry, context);
    case Class::task: return task_call(call, entry, context);
    case Class::lasting: return lasting_call(call, entry, context);
    case Class::descriptor: return descriptor_call(call, entry, context);
    default: return prepared(call, entry, context);
  }
}

}  // namespace

void on_call(int signal, siginfo_t* info, void* context) {
  constexpr int kDispatched = 2;  // SYS_USER_DISPATCH
  ThreadState* const state = this_thread();
  auto& frame = *static_cast<ucontext_t*>(context);
  if (info->si_code != kDispatched) {
    set_back_unmade(state, frame);
    if (!is_call_out(*info) && !world.come(*info, frame)) on_signal(signal, info, context);
    return;
  }
  state->selector = 0;
  const int error = errno;
  PagerStats::add(state->tally->calls);
  use_stack_from(*state, frame);
  state->open_signals.store(~(mask_of(frame) | state->blocked), std::memory_order_relaxed);
  greg_t* const registers = frame.uc_mcontext.gregs;
  registers[REG_R11] = 0;  // it is made: see is_after_call()
  const auto get = [&](int index) { return static_cast<std::uint64_t>(registers[index]); };
  const Call call{get(REG_RAX), {get(REG_RDI), get(REG_RSI), get(REG_RDX), get(REG_R10), get(REG_R8), get(REG_R9)}};
  // A signal that is aside came during a direct call. The call that brought us here is for after its handler.
  std::int64_t result = kMakeAgain;
  const bool returns = call.number == SYS_rt_sigreturn && state->aside.signal == 0;
  if (returns) {
    return_from_handler(*state, frame);
  } else if (state->aside.signal == 0) {
    result = serve(call, frame);
    if (tell_trapped(call, get(REG_RIP))) result = static_cast<std::int64_t>(call.number);
  }
  if (result != kMakeAgain) {
    registers[REG_RAX] = result;
  } else if (!returns) {
    registers[REG_RIP] -= kCallBytes;
  }
  deliver_aside(*state, frame);
  state->open_signals.store(0, std::memory_order_relaxed);
  errno = error;
  state->selector = 1;
}

}  // namespace comex::runtime

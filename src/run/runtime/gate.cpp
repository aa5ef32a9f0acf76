#include "run/runtime/gate.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "run/runtime/faults.h"
#include "run/runtime/gate_entry.h"
#include "run/runtime/layout.h"
#include "run/runtime/process.h"
#include "run/runtime/signals.h"
#include "run/runtime/tasks.h"
#include "run/runtime/world.h"
#include "run/syscall_ranges.h"
#include "run/syscall_table.h"

namespace comex::runtime {
namespace {

using syscalls::Call;
using syscalls::Class;
using syscalls::Entry;
using syscalls::Trait;

std::uint64_t& mask_of(ucontext_t& context) {
  return *reinterpret_cast<std::uint64_t*>(&context.uc_sigmask);
}

std::int64_t let_through(const Call& call) {
  const auto& a = call.arguments;
  return comex_gate_call(call.number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

void set_kernel_mask(std::uint64_t mask) {
  comex_gate_call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<std::uint64_t>(&mask), 0, sizeof mask, 0, 0);
}

// Pins and makes resident what a call touches.
class Preparation final : public syscalls::Visitor {
 public:
  // `writable`: as if the kernel wrote to all of it.
  explicit Preparation(ThreadState& state, bool writable = false)
      : pins_(*process.threads, state), writable_(writable) {}

  bool range(const syscalls::Range& range) noexcept override {
    const PageNo first{range.address >> kPageShift};
    const PageNo last{(range.address + range.bytes - 1) >> kPageShift};
    if (range.bytes == 0) return true;
    pins_.add(PageRun{first, last - first + 1});
    for (PageNo page = first; page <= last; page = page + 1) settle(page, range.kernel_writes || writable_);
    return true;
  }
  bool read(std::uintptr_t address, void* to, std::size_t bytes) noexcept override {
    // What is adopted is resident now; of anything else only the kernel knows whether it is there at all.
    const iovec from{reinterpret_cast<void*>(address), bytes};
    const iovec into{to, bytes};
    return process_vm_readv(getpid(), &into, 1, &from, 1, 0) == static_cast<ssize_t>(bytes);
  }
  bool is_self(std::uint64_t number) noexcept override {
    return number == static_cast<std::uint64_t>(getpid()) || number == static_cast<std::uint64_t>(gettid());
  }

 private:
  PinFrame pins_;
  const bool writable_;
};

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

// Lets a call through with everything it touches in place. The program's signals may interrupt it, if it may wait.
std::int64_t prepared(const Call& call, const Entry& entry, ucontext_t& context) {
  Preparation preparation(*this_thread(), is_futex(call, entry));
  prepare(call, preparation);
  const bool waits = entry.traits & Trait::blocks;
  if (waits) set_kernel_mask(mask_of(context));
  const std::int64_t result = let_through(call);
  if (waits) set_kernel_mask(Signals::open(~std::uint64_t{0}));
  return result;
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
    case SYS_mlock2:
    case SYS_mlockall: return layout.lock(call.number, a[0], a[1], a[2]);
    default: return prepared(call, entry, context);
  }
}

std::int64_t signal_call(const Call& call, const Entry& entry, ucontext_t& context) {
  const auto& a = call.arguments;
  const bool ours = call.number == SYS_rt_sigaction || call.number == SYS_rt_sigprocmask ||
                    call.number == SYS_rt_sigreturn || call.number == SYS_sigaltstack;
  if (!ours) return prepared(call, entry, context);
  Preparation preparation(*this_thread());
  prepare(call, preparation);
  switch (call.number) {
    case SYS_rt_sigaction:
      if (a[3] != sizeof(std::uint64_t)) return -EINVAL;
      return signals.action(static_cast<int>(a[0]), reinterpret_cast<const KernelAction*>(a[1]),
                            reinterpret_cast<KernelAction*>(a[2]));
    case SYS_rt_sigprocmask:
      if (a[3] != sizeof(std::uint64_t)) return -EINVAL;
      return Signals::mask(static_cast<int>(a[0]), reinterpret_cast<const std::uint64_t*>(a[1]),
                           reinterpret_cast<std::uint64_t*>(a[2]), mask_of(context));
    case SYS_rt_sigreturn:
      this_thread()->selector = 1;
      comex_gate_sigreturn(static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RSP]));
    default: {  // sigaltstack
      const std::int64_t result = let_through(call);
      const auto* const stack = reinterpret_cast<const stack_t*>(a[0]);
      if (result == 0 && stack != nullptr && (stack->ss_flags & SS_DISABLE) == 0) {
        const auto base = reinterpret_cast<std::uint64_t>(stack->ss_sp);
        layout.leave_alone(base, base + stack->ss_size);
      }
      return result;
    }
  }
}

std::int64_t task_call(const Call& call, const Entry& entry, ucontext_t& context) {
  greg_t* const registers = context.uc_mcontext.gregs;
  switch (call.number) {
    case SYS_clone: return clone_task(registers);
    case SYS_clone3: return -ENOSYS;  // libc knows what to do then: clone
    case SYS_fork:
    case SYS_vfork: return fork_task(registers);
    case SYS_exit: exit_thread(call.arguments[0]);
    default: return prepared(call, entry, context);
  }
}

std::int64_t serve(const Call& call, ucontext_t& context) {
  const Entry& entry = syscalls::entry(call.number);
  switch (syscalls::class_of(call)) {
    case Class::layout: return layout_call(call, entry, context);
    case Class::signal: return signal_call(call, entry, context);
    case Class::task: return task_call(call, entry, context);
    default: return prepared(call, entry, context);
  }
}

}  // namespace

void on_call(int signal, siginfo_t* info, void* context) {
  constexpr int kDispatched = 2;  // SYS_USER_DISPATCH
  if (info->si_code != kDispatched) {
    if (!world.come(*info)) (void)signals.forward(signal, info, context);
    return;
  }
  ThreadState* const state = this_thread();
  state->selector = 0;
  const int error = errno;
  auto& frame = *static_cast<ucontext_t*>(context);
  greg_t* const registers = frame.uc_mcontext.gregs;
  const auto get = [&](int index) { return static_cast<std::uint64_t>(registers[index]); };
  const Call call{get(REG_RAX), {get(REG_RDI), get(REG_RSI), get(REG_RDX), get(REG_R10), get(REG_R8), get(REG_R9)}};
  registers[REG_RAX] = serve(call, frame);
  errno = error;
  state->selector = 1;
}

}  // namespace comex::runtime

#include "run/runtime/tasks.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <mutex>

#include "run/descriptor_limit.h"
#include "run/own_descriptors.h"
#include "run/runtime/delivery.h"
#include "run/runtime/deputy.h"
#include "run/runtime/direct.h"
#include "run/runtime/evictor.h"
#include "run/runtime/faults.h"
#include "run/runtime/gate_entry.h"
#include "run/runtime/lasting.h"
#include "run/runtime/layout.h"
#include "run/runtime/let.h"
#include "run/runtime/move.h"
#include "run/runtime/numbers.h"
#include "run/runtime/process.h"
#include "run/runtime/profile.h"
#include "run/runtime/real.h"
#include "run/runtime/signals.h"
#include "run/runtime/tracing.h"
#include "run/runtime/world.h"

namespace comex::runtime {
namespace {

constexpr std::chrono::seconds kForkPatience{30};

void load(Registers& to, const greg_t* from) {
  const auto get = [&](int index) { return static_cast<std::uint64_t>(from[index]); };
  to = Registers{get(REG_R8),  get(REG_R9),  get(REG_R10), get(REG_R12), get(REG_R13),
                 get(REG_R14), get(REG_R15), get(REG_RDI), get(REG_RSI), get(REG_RBP),
                 get(REG_RBX), get(REG_RDX), get(REG_RAX), get(REG_RSP), get(REG_RIP)};
}

// In the child of a fork, before anything of the program runs.
void begin_child(ThreadState& mine) noexcept {
  // Of the program only this thread is here: nobody sees it.
  const RaisedDescriptorLimit more_descriptors;
  numbers.after_fork();
  process.threads->only(mine);
  mine.kept.store(0, std::memory_order_relaxed);  // they were sent to the parent, and so was this
  mine.aside.signal = 0;
  signals.adopt(mine);
  mine.apart = mine.bare = mine.beside = mine.guest = false;  // its descriptors are those of the process now
  deputy.after_fork();
  mine.owner.store(static_cast<std::uint32_t>(getpid()), std::memory_order_release);
  const std::uint32_t number = numbers.of_process();
  if (number == 0) stop("a child in a PID namespace cannot be watched without the /proc outside of it");
  process.owned = process.room->open_account(number);
  if (process.owned == nullptr) stop("too many processes");
  process.owned->life.store(Room::Life::awake, std::memory_order_release);
  process.budget->change(process.room->budget, process.owned->account);
  begin_record(process.owned);
  begin_trace();
  const Dock& dock = process.outpost->dock();
  const bool docked = process.room->may_dock(dock.bytes() >> kPageShift);
  if (process.outpost->after_fork_in_child(docked) != Errc::ok) {
    if (process.outpost->keeper_gone()) stop_without_keeper();
    stop("the keeper of this program has no room for a child");
  }
  begin_playing();
  process.owned->docked.store(dock.shared_pages(), std::memory_order_relaxed);
  if (dock.is_open()) process.pager->forget_what_waits();
  process.memory.close();
  if (open_memory(process.memory.delivery()) != Errc::ok) stop("a child has no right to userfaultfd");
  layout.enlist_again();
  process.evictor_asleep.store(false, std::memory_order_relaxed);
  arm(mine);
}

void begin_threads() noexcept {
  const RaisedDescriptorLimit more_descriptors;
  if (!(start_evictor() && process.messages.start(process.memory))) stop("cannot start a thread in a child");
}

// `apart`: the one that forks has other descriptors, and is to have those of the heir.
Errc prepare_fork(bool apart) noexcept {
  // Staged pages have one owner, and are found by who staged them.
  const Deadline patience(kForkPatience);
  const Errc emptied = process.pager->empty_staging(patience);
  if (emptied != Errc::ok) return emptied;
  process.pager->staging().put_away();
  const Errc ready = process.outpost->before_fork(patience);
  if (ready == Errc::ok && apart) (void)process.outpost->send_heir(deputy.out());  // who takes it will see
  return ready;
}

// The caller of vfork waits until the child has ended or executed a program, which closes its end of a pipe. Not for
// its memory, of which the child has a copy: a parent that goes on sooner may miss what the program has done.
class Vfork {
 public:
  // REQUIRES: nobody else forks before in_parent() or in_child().
  explicit Vfork(bool wanted) noexcept {
    const std::lock_guard received(own_descriptors.mutex);
    if (!wanted || pipe2(ends_, O_CLOEXEC) != 0) return;
    for (int& end : ends_) end = own_descriptors.adopt(end);
  }
  // The other end stays open, and known to be ours.
  void in_child() noexcept { close(ends_[0]); }
  void in_parent() noexcept { close(ends_[1]); }
  void wait() noexcept {
    char byte = 0;
    const auto look = [&] {
      return comex_gate_call(SYS_read, static_cast<std::uint64_t>(ends_[0]), reinterpret_cast<std::uint64_t>(&byte), 1,
                             0, 0, 0);
    };
    while (ends_[0] >= 0 && look() == -EINTR) {
    }
    close(ends_[0]);
  }

 private:
  static void close(int& end) noexcept {
    own_descriptors.drop(end);
    if (end >= 0) ::close(end);
    end = -1;
  }

  int ends_[2] = {-1, -1};
};

// Threads are spread over the places where the process counts.
void count_in(ThreadState& state) noexcept {
  Record& record = process.owned->record;
  state.tally = &record.tallies[reinterpret_cast<std::uintptr_t>(&state) / sizeof state % Record::kTallies];
  state.faulter.stats = &state.tally->pager;
}

}  // namespace

void arm(ThreadState& state) noexcept {
  if (!equip(state.faulter)) stop("no memory for another thread");
  count_in(state);
  // A guest may have the thread-local storage of the one that made it.
  if (!state.guest) set_this_thread(&state);
  state.selector = 0;
  state.gated = true;
  constexpr std::int64_t kFiltered = 2;  // SECCOMP_MODE_FILTER
  if (comex_gate_call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0) == kFiltered) expect_filters();
  const auto begin = reinterpret_cast<std::uint64_t>(comex_gate_begin);
  const auto end = reinterpret_cast<std::uint64_t>(comex_gate_end);
  const std::int64_t result = comex_gate_call(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, begin,
                                              end - begin, reinterpret_cast<std::uint64_t>(&state.selector), 0);
  allow_direct();
  if (result < 0) stop("the kernel refuses to watch the program's system calls (Syscall User Dispatch)");
}

// Words that the kernel writes in the child as it begins, or when it ends, and what handlers of faults need in it.
void leave_words_alone(const greg_t* registers) noexcept {
  const auto get = [&](int index) { return static_cast<std::uint64_t>(registers[index]); };
  const std::uint64_t flags = get(REG_RDI);
  const auto leave = [](std::uint64_t word) { layout.leave_alone(word, word + sizeof(std::uint32_t)); };
  if ((flags & (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID)) != 0) leave(get(REG_R10));
  if ((flags & CLONE_SETTLS) != 0) leave_storage_alone(get(REG_R8));
  if ((flags & (CLONE_PARENT_SETTID | CLONE_PIDFD)) != 0) leave(get(REG_RDX));
}

extern "C" void comex_child_begin(ThreadState* child) {
  const std::int64_t self = comex_gate_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
  child->owner.store(static_cast<std::uint32_t>(self), std::memory_order_release);
  arm(*child);
  // The last thing: we stand on it.
  use_stack(*child);
  child->selector = 1;
}

std::int64_t clone_task(ucontext_t& context) noexcept {
  const greg_t* const registers = context.uc_mcontext.gregs;
  const auto flags = static_cast<std::uint64_t>(registers[REG_RDI]);
  const auto stack = static_cast<std::uint64_t>(registers[REG_RSI]);
  if ((flags & CLONE_VM) == 0 || stack == 0) return fork_task(context);
  ThreadState* const mine = this_thread();
  // Its own id is not known yet; any will do.
  ThreadState* const child = process.threads->enter(static_cast<std::uint32_t>(getpid()));
  if (child == nullptr) return -EAGAIN;
  child->guest = (flags & CLONE_THREAD) == 0;
  if ((flags & CLONE_SIGHAND) != 0) {
    child->actions = mine->actions;
  } else if (!signals.begin_own(*child, *mine)) {
    process.threads->leave(*child);
    return -ENOMEM;
  }
  // A guest that lives on can have no deputy made: it would be the guest's thread. So there is one before. Where there
  // can be none the task uses what it has a copy of.
  const bool lives_on = child->guest && (flags & CLONE_VFORK) == 0;
  const bool has_deputy = ((flags & CLONE_FILES) == 0 || lives_on) && deputy.start();
  child->apart = mine->apart || ((flags & CLONE_FILES) == 0 && has_deputy);
  child->bare = mine->bare;
  child->beside = (child->guest || child->apart) && (flags & CLONE_VFORK) == 0;
  if (child->guest && (flags & CLONE_VFORK) == 0) forbid_direct();
  leave_words_alone(registers);
  load(child->registers, registers);
  child->registers.rsp = stack;
  child->first_mask = *reinterpret_cast<const std::uint64_t*>(&context.uc_sigmask);
  child->blocked = mine->blocked;
  if (child->guest) child->program_stack = mine->program_stack;
  // Until it has begun it has no state that a handler would find; it opens first_mask itself.
  Signals::block(Signals::kEverything);
  const std::int64_t result = comex_gate_clone(child);
  Signals::block(Signals::kButFaults);
  // One that the kernel made us wait for (vfork) is over, or another program.
  const bool waited = (flags & CLONE_VFORK) != 0;
  if (waited || result < 0) process.threads->leave(*child);
  return result;
}

// The child is a copy of this process, with this thread alone: whatever was local is local in both, and what was away
// both can fetch, each in its own time. See "fork" in docs/design-notes.md.
std::int64_t fork_task(ucontext_t& context) noexcept {
  greg_t* const registers = context.uc_mcontext.gregs;
  constexpr std::uint64_t kShared = CLONE_VM | CLONE_VFORK;
  const auto number = static_cast<std::uint64_t>(registers[REG_RAX]);
  const bool plain = number != SYS_clone;  // fork, and vfork, which is served as fork
  const auto flags = plain ? std::uint64_t{SIGCHLD} : static_cast<std::uint64_t>(registers[REG_RDI]) & ~kShared;
  const bool waits = number == SYS_vfork || (!plain && (registers[REG_RDI] & CLONE_VFORK) != 0);
  ThreadState& mine = *this_thread();
  const bool apart = mine.apart;
  if (mine.bare) return -EAGAIN;  // what the child needs could not be handed to it
  if (!plain) leave_words_alone(registers);
  // In this order: one fork at a time; nobody inside; and only then, as those were served until they had left:
  signals.hold();
  process.crossing.close();
  process.messages.pause();
  Errc ready = with_descriptors(mine, [&] { return prepare_fork(apart); });
  if (ready == Errc::ok && apart && process.outpost->take_heir(deputy.in()) != Errc::ok) {
    process.outpost->after_fork_in_parent();
    ready = Errc::busy;
  }
  std::int64_t result = -EAGAIN;
  Vfork pause(waits && ready == Errc::ok && !apart);  // which descriptors are ours is known of those of the process
  if (ready == Errc::ok) {
    const auto given = [&](int index) { return plain ? 0 : static_cast<std::uint64_t>(registers[index]); };
    result = let_filtered(
        {number == SYS_fork ? number : SYS_clone, {flags, 0, given(REG_RDX), given(REG_R10), given(REG_R8), 0}});
    if (result == 0) {
      pause.in_child();
      begin_child(mine);
      if (!plain && registers[REG_RSI] != 0) registers[REG_RSP] = registers[REG_RSI];
    } else {
      pause.in_parent();
      process.outpost->after_fork_in_parent();
    }
  }
  process.messages.resume();
  process.crossing.open();
  signals.let_go();
  if (result == 0) {
    begin_threads();
  } else {
    pause.wait();
  }
  return result;
}

void exit_thread(std::uint64_t status) noexcept {
  leave_robust_list_alone();
  ThreadState& mine = *this_thread();
  Signals::block(Signals::kEverything);  // the stack for handlers is the next owner's
  Signals::pass_kept_on(mine);
  process.threads->clear(mine);
  comex_gate_exit(status, reinterpret_cast<std::uint32_t*>(&mine.owner));
}

}  // namespace comex::runtime

namespace {

using comex::runtime::Real;

constinit Real<int(int (*)(void*), void*, int, void*, void*, void*, void*)> real_clone("clone");

}  // namespace

// The keeper stops the threads of a dormant process when it wakes it, not a task that only shares their memory.
COMEX_TAKEN_OVER int clone(int (*body)(void*), void* stack, int flags, void* argument, ...) noexcept {
  using comex::runtime::process;
  va_list rest;
  va_start(rest, argument);
  void* const parent = va_arg(rest, void*);
  void* const storage = va_arg(rest, void*);
  void* const child = va_arg(rest, void*);
  va_end(rest);
  const bool beside = (flags & CLONE_VM) != 0 && (flags & (CLONE_THREAD | CLONE_VFORK)) == 0;
  if (beside && process.room != nullptr && process.pager == nullptr) comex::runtime::World::ask_to_wake();
  return real_clone(body, stack, flags, argument, parent, storage, child);
}

#include "run/keeper/poke_call.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

namespace comex {
namespace {

constexpr int kCallStop = SIGTRAP | 0x80;

Error gone() {
  return Error{Errc::disconnected, fmt::format("a thread has ended: {}", std::strerror(errno))};
}

// A thread may be stopped in the middle of a restartable sequence (rseq), which it has to begin again if it was moved
// to another processor. The kernel forgets that once it finds the thread anywhere else, as it does here.
class RestartableSequence {
 public:
  explicit RestartableSequence(pid_t thread) : thread_(thread) {
    constexpr auto kConfiguration = static_cast<__ptrace_request>(0x420f);  // PTRACE_GET_RSEQ_CONFIGURATION
    struct {
      std::uint64_t address;
      std::uint32_t bytes, signature, flags, pad;
    } found{};
    if (ptrace(kConfiguration, thread, sizeof found, &found) <= 0 || found.address == 0) return;
    constexpr std::uint64_t kCurrent = 8;  // rseq_cs
    address_ = found.address + kCurrent;
    errno = 0;
    current_ = ptrace(PTRACE_PEEKDATA, thread, address_, nullptr);
    if (errno != 0) current_ = 0;
  }
  void restore() const {
    if (current_ != 0) ptrace(PTRACE_POKEDATA, thread_, address_, current_);
  }

 private:
  const pid_t thread_;
  std::uint64_t address_ = 0;
  long current_ = 0;
};

// Until it enters the call, or leaves it.
Expected<void> go_on(pid_t thread, int* signal) {
  for (;;) {
    int status = 0;
    if (ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr) != 0) return gone();
    if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) return gone();
    const bool event = status >> 16 != 0;  // the process is stopped or continued, say
    if (!event && WSTOPSIG(status) == kCallStop) return {};
    if (!event) *signal = WSTOPSIG(status);  // one that cannot be blocked
  }
}

Expected<std::int64_t> call_and_return(pid_t thread, const ForeignCall& call, user_regs_struct registers, int* signal) {
  registers.rip = call.instruction;
  registers.rax = call.number;
  registers.orig_rax = ~0ULL;  // it is in no call, so none is gone on with
  registers.rdi = call.arguments[0];
  registers.rsi = call.arguments[1];
  registers.rdx = call.arguments[2];
  registers.r10 = call.arguments[3];
  if (ptrace(PTRACE_SETREGS, thread, nullptr, &registers) != 0) return gone();
  for (int stop = 0; stop < 2; ++stop) {
    if (auto reached = go_on(thread, signal); !reached) return std::move(reached).error();
  }
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return gone();
  return static_cast<std::int64_t>(registers.rax);
}

template <typename Predicate>
void set_back_if(pid_t thread, Predicate&& is_unfinished) {
  user_regs_struct registers{};
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return;
  const auto number = static_cast<std::int64_t>(registers.orig_rax);
  if (number < 0 || number == SYS_close || !is_unfinished(static_cast<std::int64_t>(registers.rax))) return;
  registers.rax = registers.orig_rax;
  registers.rip -= 2;  // the instruction
  registers.orig_rax = ~0ULL;
  ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
}

}  // namespace

bool get_mask(pid_t thread, std::uint64_t* mask) {
  constexpr auto kGet = static_cast<__ptrace_request>(0x420a);  // PTRACE_GETSIGMASK
  return ptrace(kGet, thread, sizeof *mask, mask) == 0;
}

bool set_mask(pid_t thread, std::uint64_t mask) {
  constexpr auto kSet = static_cast<__ptrace_request>(0x420b);  // PTRACE_SETSIGMASK
  return ptrace(kSet, thread, sizeof mask, &mask) == 0;
}

Expected<std::int64_t> make_call(pid_t thread, const ForeignCall& call, int* signal) {
  constexpr std::uint64_t kLongMode = 0x33;  // the code segment
  user_regs_struct before{};
  std::uint64_t mask = 0;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &before) != 0) return gone();
  if (before.cs != kLongMode) return Error{Errc::unsupported, "a thread of 32 bits"};
  if (!get_mask(thread, &mask)) return gone();
  // No handler may run in between. Not by single steps: their signal cannot be blocked without side effects.
  if (!set_mask(thread, ~std::uint64_t{0})) return gone();
  if (ptrace(PTRACE_SETOPTIONS, thread, nullptr, PTRACE_O_TRACESYSGOOD) != 0) return gone();
  const RestartableSequence sequence(thread);
  auto result = call_and_return(thread, call, before, signal);
  sequence.restore();
  ptrace(PTRACE_SETREGS, thread, nullptr, &before);
  set_mask(thread, mask);
  // It stands behind a call now, where the kernel does not look any more whether another is to be gone on with.
  set_back(thread);
  return result;
}

void set_back(pid_t thread) {
  set_back_if(thread, [](std::int64_t result) {
    constexpr std::int64_t kFirst = -512;  // ERESTARTSYS, -NOINTR, -NOHAND, and -RESTARTBLOCK
    constexpr std::int64_t kNone = -515;
    constexpr std::int64_t kLast = -516;
    return result == -EINTR || (result <= kFirst && result >= kLast && result != kNone);
  });
}

void set_back_interrupted(pid_t thread) {
  set_back_if(thread, [](std::int64_t result) { return result == -EINTR; });
}

}  // namespace comex

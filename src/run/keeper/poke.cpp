#include "run/keeper/poke.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "run/keeper/poke_call.h"
#include "run/keeper/poke_stop.h"
#include "run/poke_desk.h"
#include "run/poke_value.h"

namespace comex {
namespace {

// How often threads that have ended are reaped: a program that executes another may wait for that.
constexpr Millis kBurial{5};
constexpr std::chrono::microseconds kUntilEnded{100};

constexpr std::uint64_t bit(int signal) {
  return std::uint64_t{1} << (signal - 1);
}

// Whether they have a handler for the signal. One that has become another program has none yet, and would end.
bool is_handled(pid_t process, const StoppedThreads& threads) {
  const auto status = signal_status(process, threads.all().front().id);
  return status && (status->handled & bit(SIGSYS)) != 0;
}

// Whether one of them is about to handle a signal of the program's. It decides how the call that it ends for goes on,
// and our signal would come first. Or it has a SIGSYS, blocked or not: there is room for one, so ours would be lost.
bool is_disturbed(pid_t process, const StoppedThreads& threads) {
  return std::ranges::any_of(threads.all(), [process](const HeldThread& thread) {
    const auto status = signal_status(process, thread.id);
    return StoppedThreads::signal_comes(thread, status) || (status->pending & bit(SIGSYS)) != 0;
  });
}

PokeDesk read_desk(pid_t thread, std::uint64_t desk, ssize_t* got) {
  PokeDesk there;
  const iovec here_part{&there, sizeof there};
  const iovec there_part{reinterpret_cast<void*>(desk), sizeof there};
  *got = process_vm_readv(thread, &here_part, 1, &there_part, 1, 0);
  return there;
}

// Whether it is known, before anybody has been stopped, that the desk is not there: the program has become another,
// which may be one that never has one. It would be stopped in vain, again and again, and its calls that wait for a time
// would begin anew each time.
bool is_another_program(pid_t process, std::uint64_t desk) {
  const auto listed = threads_of(process);
  if (!listed) return false;
  // By a thread that is there: the first one, which the process is called by, may have ended.
  for (const pid_t id : *listed) {
    ssize_t got = 0;
    const PokeDesk there = read_desk(id, desk, &got);
    if (got == ssize_t{sizeof there}) return there.mark != PokeDesk::kMark;
    if (got >= 0 || errno == EFAULT) return true;
  }
  return false;
}

// Has one of them put the handler in place that the desk says. Then nothing may fail any more: what was there before
// is lost if this is done twice.
Expected<void> install(StoppedThreads& threads, std::uint64_t desk) {
  ssize_t got = 0;
  const PokeDesk there = read_desk(threads.all().front().id, desk, &got);
  if (got != ssize_t{sizeof there} || there.mark != PokeDesk::kMark)
    return Error{Errc::busy, "it is another program by now"};
  const ForeignCall call{
      there.call,
      SYS_rt_sigaction,
      {SIGSYS, desk + offsetof(PokeDesk, ours), desk + offsetof(PokeDesk, found), sizeof there.ours.mask}};
  for (HeldThread& thread : threads.all()) {
    auto result = make_call(thread.id, call, &thread.signal);
    if (!result && result.error().code == Errc::unsupported) continue;
    if (!result) return std::move(result).error();
    if (*result != 0) return Error{Errc::denied, "it may not handle a signal"};
    return {};
  }
  return Error{Errc::unsupported, "it has no thread of 64 bits"};
}

// Returns what of these it had blocked.
std::uint64_t open_mask(pid_t thread) {
  constexpr std::uint64_t kOpen = bit(SIGSYS) | bit(SIGBUS);
  std::uint64_t mask = 0;
  if (!get_mask(thread, &mask)) return 0;
  set_mask(thread, mask & ~kOpen);
  return mask & kOpen;
}

// To those who have it blocked, what waits for them. What waits for the process is one signal, for one of them.
void let_in(pid_t process, const StoppedThreads& threads) {
  bool shared = false;
  for (const HeldThread& thread : threads.all()) {
    const auto status = signal_status(process, thread.id);
    if (!status || (status->pending & status->blocked & bit(SIGSYS)) == 0) continue;
    const bool own = (status->own & bit(SIGSYS)) != 0;
    if (own || !shared) open_mask(thread.id);
    shared = shared || !own;
  }
}

// To all of them. Returns how many there are.
std::uint32_t send(pid_t process, StoppedThreads& threads) {
  const auto count = static_cast<std::uint32_t>(threads.all().size());
  threads.calls_are_set_back();
  for (const HeldThread& thread : threads.all()) {
    set_back(thread.id);
    const std::uint64_t blocked = open_mask(thread.id);
    siginfo_t info{};
    info.si_signo = SIGSYS;
    info.si_code = SI_QUEUE;
    info.si_value.sival_ptr =
        reinterpret_cast<void*>(PokeValue::of(count, (blocked & bit(SIGBUS)) != 0, (blocked & bit(SIGSYS)) != 0));
    syscall(SYS_rt_tgsigqueueinfo, process, thread.id, SIGSYS, &info);
  }
  return count;
}

Expected<std::uint32_t> stop_and_send(pid_t process, pid_t spared, std::uint64_t desk, Deadline patience,
                                      const std::function<bool()>& still, bool awake) {
  StoppedThreads threads(process, spared);
  if (auto stopped = threads.stop(patience); !stopped) return std::move(stopped).error();
  if (still && !still()) return Error{Errc::busy, "it has begun anew"};
  if (desk == 0 && !is_handled(process, threads)) return Error{Errc::busy, "it has no handler for the signal"};
  if (is_disturbed(process, threads)) {
    if (awake) let_in(process, threads);
    return Error{Errc::busy, "a signal is on its way to it"};
  }
  if (desk != 0) {
    if (auto installed = install(threads, desk); !installed) return std::move(installed).error();
  }
  return send(process, threads);
}

// How a thread is scheduled. Another that works for it inherits that only if it may (SCHED_RESET_ON_FORK).
class Scheduling {
 public:
  Scheduling() : policy_(sched_getscheduler(0)) { sched_getparam(0, &parameters_); }
  void adopt() const { sched_setscheduler(0, policy_, &parameters_); }

 private:
  const int policy_;
  sched_param parameters_{};
};

// A thread that has been joined has not ended yet for those that it traces: that comes a little later.
void wait_for_end(pid_t thread) {
  while (syscall(SYS_tgkill, getpid(), thread, 0) == 0) std::this_thread::sleep_for(kUntilEnded);
}

}  // namespace

// By a thread of its own: when it ends, the kernel lets go of whatever it holds still. Meanwhile this one reaps those
// that end, without which a program could not execute another (run/keeper/poke_stop.h). Afterwards nobody is held.
Expected<std::uint32_t> poke(pid_t process, pid_t spared, std::uint64_t desk, Deadline patience,
                             const std::function<bool()>& still, bool awake) {
  if (desk != 0 && is_another_program(process, desk)) return Error{Errc::busy, "it is another program by now"};
  const Scheduling scheduling;
  pid_t id = 0;
  std::promise<Expected<std::uint32_t>> promise;
  auto answer = promise.get_future();
  std::thread tracer;
  try {
    tracer = std::thread([&] {
      id = gettid();
      scheduling.adopt();
      promise.set_value(stop_and_send(process, spared, desk, patience, still, awake));
    });
  } catch (const std::system_error&) {
    return Error{Errc::busy, "there is no thread to be had that could stop it"};
  }
  while (answer.wait_for(kBurial) != std::future_status::ready) bury_ended(process);
  tracer.join();
  wait_for_end(id);
  return answer.get();
}

}  // namespace comex

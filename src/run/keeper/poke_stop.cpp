#include "run/keeper/poke_stop.h"

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "run/keeper/poke_call.h"

namespace comex {
namespace {

using Life = HeldThread::Life;

// How long between looks at a thread that has not stopped yet.
constexpr std::chrono::microseconds kBetweenLooks{100};
// For how long, when all are let go, those are waited for that have not stopped yet. One that cannot be interrupted
// does not notice if the kernel lets it go later. Any other may be woken already and find no processor; it would see
// EINTR.
constexpr Millis kUninterruptible{100};
constexpr Millis kWithoutProcessor{10'000};

// Whether it stopped, ended, or is not known by that number any more.
void see(HeldThread& thread) {
  int status = 0;
  const pid_t got = waitpid(thread.id, &status, __WALL | WNOHANG);
  if (got == 0 && thread.life == Life::runs) {
    // Told again: its number may have passed to another thread, which we do not hold, or have not told.
    if (ptrace(PTRACE_INTERRUPT, thread.id, nullptr, nullptr) != 0) thread.life = Life::gone;
  }
  if (got == 0) return;
  const bool stands = got > 0 && WIFSTOPPED(status);
  thread.life = stands ? Life::stands : Life::gone;
  // Not an event of ptrace: a signal that is on its way, and goes on with the thread.
  thread.signal = stands && status >> 16 == 0 ? WSTOPSIG(status) : 0;
}

bool is_in_stop(pid_t id) {
  unsigned long message = 0;
  return ptrace(PTRACE_GETEVENTMSG, id, nullptr, &message) == 0;
}

}  // namespace

StoppedThreads::~StoppedThreads() {
  const Deadline uninterruptible(kUninterruptible);
  const Deadline without_processor(kWithoutProcessor);
  const auto is_left_to_kernel = [&](const HeldThread& thread) {
    return !runs(thread) || (uninterruptible.passed() && thread_state(process_, thread.id) == 'D');
  };
  for (;;) {
    for (HeldThread& thread : held_) {
      if (thread.life == Life::runs) see(thread);
      if (thread.life == Life::stands) let_go(thread);
    }
    std::erase_if(held_, is_left_to_kernel);
    if (held_.empty() || without_processor.passed()) return;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

Expected<void> StoppedThreads::stop(Deadline patience) {
  // A thread that runs can make another, or become the first: until a look finds nothing new while all that are known
  // stand, and they still do after it.
  for (;;) {
    auto seen = look();
    if (!seen) return std::move(seen).error();
    if (seen->missed) {
      if (patience.passed()) return Error{Errc::timeout, "its threads come and go"};
      std::this_thread::sleep_for(kBetweenLooks);
      continue;
    }
    if (auto stood = wait(patience); !stood) return stood;
    if (all_stand() && !seen->running) break;
  }
  // The first thread, if it has ended. Nobody runs who could take its number.
  std::erase_if(held_, [](const HeldThread& thread) { return thread.life != Life::stands; });
  if (held_.empty()) return found_nobody();
  return {};
}

// Takes hold of the threads that are not yet held, and tells them to stop.
Expected<StoppedThreads::Look> StoppedThreads::look() {
  auto listed = threads_of(process_);
  if (!listed) return std::move(listed).error();
  Look seen;
  for (const pid_t id : *listed) {
    if (id == spared_) continue;
    if (const HeldThread* const known = find(id); known != nullptr) {
      seen.running = seen.running || runs(*known);
      continue;
    }
    auto grip = take(id);
    if (!grip) return std::move(grip).error();
    seen.running = seen.running || *grip == Grip::held;
    seen.missed = seen.missed || *grip == Grip::missed;
    if (*grip == Grip::held) held_.push_back(HeldThread{id});
  }
  return seen;
}

Expected<StoppedThreads::Grip> StoppedThreads::take(pid_t id) const {
  int error = 0;
  // The first thread may have ended when we take hold of it, and be another one when we look why we could not: that
  // one is tried once more.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const bool seized = ptrace(PTRACE_SEIZE, id, nullptr, nullptr) == 0;
    error = errno;
    // This works for all that we hold, those included that we have taken by another number.
    if (ptrace(PTRACE_INTERRUPT, id, nullptr, nullptr) == 0) return Grip::held;
    // PTRACE_SEIZE waits for who executes another program, and has hold of it then, whatever its number is by now.
    if (seized || error == ESRCH) return Grip::missed;
    if (thread_has_ended(process_, id)) return Grip::ended;
  }
  return Error{Errc::denied, fmt::format("cannot stop a thread (ptrace): {}", std::strerror(error))};
}

Expected<void> StoppedThreads::wait(Deadline patience) {
  for (;;) {
    for (HeldThread& thread : held_) {
      if (thread.life == Life::runs) see(thread);
    }
    forget_gone();
    if (nobody_runs()) return {};
    if (patience.passed()) return Error{Errc::timeout, "a thread does not stop"};
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

// What stood may have been killed since, and the first one's number belong to another, which may have stopped itself.
bool StoppedThreads::all_stand() {
  for (HeldThread& thread : held_) {
    if (thread.life == Life::stands && !is_in_stop(thread.id)) thread.life = Life::runs;
    if (thread.id == process_) see(thread);
  }
  return forget_gone() == 0 && nobody_runs();
}

std::size_t StoppedThreads::forget_gone() {
  return std::erase_if(held_, [](const HeldThread& thread) { return thread.life == Life::gone; });
}

bool StoppedThreads::nobody_runs() const {
  return std::ranges::none_of(held_, [this](const HeldThread& thread) { return runs(thread); });
}

const HeldThread* StoppedThreads::find(pid_t id) const {
  const auto found = std::ranges::find(held_, id, &HeldThread::id);
  return found == held_.end() ? nullptr : &*found;
}

// The first of several threads ends without a word to whoever holds it, until the last has ended.
bool StoppedThreads::runs(const HeldThread& thread) const {
  return thread.life == Life::runs && !(thread.id == process_ && thread_has_ended(process_, process_));
}

// Nobody but who is spared. Or the list was read just when a thread became the first one, for which all others end.
Error StoppedThreads::found_nobody() const {
  const auto spared = spared_ != 0 ? thread_state(process_, spared_) : std::nullopt;
  if (spared && *spared != 'Z' && *spared != 'X') return {Errc::disconnected, "it has no other thread"};
  if (process_has_ended(process_)) return {Errc::disconnected, "the process has ended"};
  return {Errc::busy, "it is becoming another program"};
}

void StoppedThreads::let_go(const HeldThread& thread) const {
  if (!calls_set_back_ && !signal_comes(thread, signal_status(process_, thread.id))) set_back_interrupted(thread.id);
  ptrace(PTRACE_DETACH, thread.id, nullptr, static_cast<long>(thread.signal));
}

bool StoppedThreads::signal_comes(const HeldThread& thread, const std::optional<SignalStatus>& status) {
  return thread.signal != 0 || !status || (status->pending & ~status->blocked) != 0;
}

void bury_ended(pid_t process) {
  const auto listed = threads_of(process);
  if (!listed) return;
  for (const pid_t id : *listed) {
    // Nobody waits for the first one to be reaped, and its end is for its parent to hear of.
    if (id == process) continue;
    // A stop is reported whatever is asked for, and must stay for who holds the thread. One that has ended stays so.
    siginfo_t seen{};
    if (waitid(P_PID, static_cast<id_t>(id), &seen, WEXITED | WNOWAIT | WNOHANG | __WALL) != 0) continue;
    const bool ended = seen.si_code == CLD_EXITED || seen.si_code == CLD_KILLED || seen.si_code == CLD_DUMPED;
    if (seen.si_pid == id && ended) waitid(P_PID, static_cast<id_t>(id), &seen, WEXITED | WNOHANG | __WALL);
  }
}

}  // namespace comex

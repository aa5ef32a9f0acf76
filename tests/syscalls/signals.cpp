// Signals: actions, masks, stacks in evicted memory, and waiting for signals.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "syscalls/suite.h"

using namespace suite;

namespace {

// As the kernel takes it; the C library's is larger.
struct KernelAction {
  void (*handler)(int, siginfo_t*, void*);
  unsigned long flags;
  void (*restorer)();
  unsigned long mask;
};

volatile int seen_value;
volatile long seen_number;
volatile std::uintptr_t seen_stack;

void note(int, siginfo_t* info, void*) {
  char here;
  seen_value = info->si_value.sival_int;
  seen_stack = reinterpret_cast<std::uintptr_t>(&here);
}

void handle(int signal, int flags) {
  auto* action = place<struct sigaction>();
  action->sa_sigaction = note;
  action->sa_flags = SA_SIGINFO | flags;
  EVICTED(sigaction(signal, action, nullptr));
}

siginfo_t* queued_information(int signal, int value) {
  auto* information = place<siginfo_t>();
  information->si_signo = signal;
  information->si_code = SI_QUEUE;
  information->si_pid = getpid();
  information->si_uid = getuid();
  information->si_value.sival_int = value;
  return information;
}

unsigned long* mask_of(int signal) {
  auto* mask = place<unsigned long>(2);
  *mask = 1UL << (signal - 1);
  return mask;
}

void queue_signal(void* thread) {
  must(syscall(SYS_tgkill, getpid(), *static_cast<long*>(thread), SIGRTMIN + 3), "tgkill");
}

}  // namespace

CASE(action_and_queued_signal) {
  handle(SIGRTMIN + 1, 0);
  seen_value = 0;
  EVICTED(syscall(SYS_rt_sigqueueinfo, getpid(), SIGRTMIN + 1, queued_information(SIGRTMIN + 1, 41)));
  const int first = seen_value;
  EVICTED(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGRTMIN + 1, queued_information(SIGRTMIN + 1, 42)));
  result("values %d and %d", first, seen_value);
}

CASE(action_as_the_kernel_takes_it) {
  handle(SIGRTMIN + 1, SA_RESTART);
  auto* old = place<KernelAction>();
  EVICTED(syscall(SYS_rt_sigaction, SIGRTMIN + 1, nullptr, old, 8));
  result("flags %lx", old->flags & (SA_SIGINFO | SA_RESTART));
}

CASE(masks_and_pending) {
  auto *block = mask_of(SIGUSR2), *old = place<unsigned long>(2), *pending = place<unsigned long>(2);
  handle(SIGUSR2, 0);
  EVICTED(syscall(SYS_rt_sigprocmask, SIG_BLOCK, block, old, 8));
  must(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR2), "tgkill");
  EVICTED(syscall(SYS_rt_sigpending, pending, 8));
  const bool is_pending = (*pending & *block) != 0;
  EVICTED(syscall(SYS_rt_sigprocmask, SIG_SETMASK, old, nullptr, 8));
  result("pending %d, was blocked %d", is_pending ? 1 : 0, (*old & *block) != 0 ? 1 : 0);
}

CASE(alternate_stack_evicted) {
  constexpr std::size_t kStack = 65536;
  char* memory = place<char>(kStack);
  auto *stack = place<stack_t>(), *old = place<stack_t>();
  stack->ss_sp = memory;
  stack->ss_size = kStack;
  EVICTED(sigaltstack(stack, old));
  handle(SIGUSR1, SA_ONSTACK);
  EVICTED(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1));
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const bool on_it = seen_stack >= start && seen_stack < start + kStack;
  EVICTED(sigaltstack(old, nullptr));
  result("on the stack: %d", on_it ? 1 : 0);
}

CASE(sigtimedwait_while_blocked) {
  auto* mask = mask_of(SIGRTMIN + 3);
  EVICTED(syscall(SYS_rt_sigprocmask, SIG_BLOCK, mask, nullptr, 8));
  auto* information = place<siginfo_t>();
  auto* time = place<timespec>();
  time->tv_sec = 10;
  long thread = gettid();
  long signal = 0;
  {
    Later sender(queue_signal, &thread);
    signal = EVICTED(syscall(SYS_rt_sigtimedwait, mask, information, time, 8));
  }
  EVICTED(syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, mask, nullptr, 8));
  result("signal %ld, code %d", signal - SIGRTMIN, information->si_code);
}

CASE(sigsuspend_while_blocked) {
  handle(SIGRTMIN + 3, 0);
  auto *block = mask_of(SIGRTMIN + 3), *none = place<unsigned long>(2);
  EVICTED(syscall(SYS_rt_sigprocmask, SIG_BLOCK, block, nullptr, 8));
  long thread = gettid();
  long answer = 0;
  int error = 0;
  {
    Later sender(queue_signal, &thread);
    evict();
    answer = syscall(SYS_rt_sigsuspend, none, 8);
    error = errno;
  }
  EVICTED(syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, block, nullptr, 8));
  result("%ld, %s", answer, std::strerror(error));
}

CASE(pidfd_signal) {
  handle(SIGRTMIN + 1, 0);
  seen_value = 0;
  const int fd = static_cast<int>(must_or_skip(syscall(SYS_pidfd_open, getpid(), 0), "pidfd_open"));
  EVICTED(syscall(SYS_pidfd_send_signal, fd, SIGRTMIN + 1, queued_information(SIGRTMIN + 1, 43), 0));
  result("value %d", seen_value);
  close(fd);
}

namespace {

std::atomic<int> handled{0};
std::atomic<bool> enough{false};

std::atomic<bool> touching;

// Touches more than a tight budget has room for, so that signals find it waiting for pages.
void* keep_touching(void*) {
  constexpr std::size_t kBytes = std::size_t{24} << 20;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const bytes = static_cast<volatile char*>(memory);
  for (std::size_t at = 0; !enough; at = (at + 4096) % kBytes) {
    bytes[at] = static_cast<char>(bytes[at] + 1);
    touching = true;
  }
  munmap(memory, kBytes);
  return nullptr;
}

}  // namespace

// A signal gets a handler and loses it again while another thread waits for pages: none is lost, and none kills.
CASE(handlers_come_and_go_while_a_thread_touches_memory) {
  constexpr int kRounds = 100;
  handled = 0;
  enough = false;
  pthread_t thread{};
  check(pthread_create(&thread, nullptr, keep_touching, nullptr) == 0, "pthread_create");
  struct sigaction handler {};
  handler.sa_handler = [](int) { ++handled; };
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  for (int round = 1; round <= kRounds; ++round) {
    must(sigaction(SIGUSR2, &handler, nullptr), "sigaction");
    check(pthread_kill(thread, SIGUSR2) == 0, "pthread_kill");
    while (handled < round) usleep(100);  // the other has more to do
    must(sigaction(SIGUSR2, &ignored, nullptr), "sigaction");
    check(pthread_kill(thread, SIGUSR2) == 0, "pthread_kill");
  }
  enough = true;
  pthread_join(thread, nullptr);
  // The kernel keeps a signal that is ignored, if it is blocked: as all are while a fault is served under comex. By the
  // time it is let through there may be a handler again.
  result("%d of %d handled", std::min(handled.load(), kRounds), kRounds);
}

// One of the two signals that are never blocked under comex comes at every moment of a fault and of a call.
CASE(sent_over_and_over_while_memory_is_touched) {
  constexpr int kTimes = 20'000;
  handled = 0;
  enough = touching = false;
  struct sigaction handler {};
  handler.sa_handler = [](int) {
    ++handled;
    (void)syscall(SYS_getppid);
  };
  must(sigaction(SIGBUS, &handler, nullptr), "sigaction");
  pthread_t thread{};
  check(pthread_create(&thread, nullptr, keep_touching, nullptr) == 0, "pthread_create");
  while (!touching) usleep(100);
  for (int i = 0; i < kTimes; ++i) check(pthread_kill(thread, SIGBUS) == 0, "pthread_kill");
  enough = true;
  pthread_join(thread, nullptr);
  std::signal(SIGBUS, SIG_DFL);
  // How many depends on how fast they are taken.
  result("%s", handled > 0 ? "handled" : "not handled");
}

namespace {

// One thread makes calls while others send it signals. In its handler both are blocked.
struct Flood {
  std::atomic<long> victim{0};
  std::atomic<long> unmade{0};  // calls that returned without having been made
  long parent = 0;
  volatile int depth = 0, deepest = 0;
} flood;

void call_once() {
  flood.unmade += syscall(SYS_getppid) != flood.parent;
}

void* be_flooded(void*) {
  constexpr std::size_t kBytes = std::size_t{24} << 20;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const bytes = static_cast<volatile char*>(memory);
  flood.victim = gettid();
  for (std::size_t at = 0; !enough; at = (at + 4096) % kBytes) {
    bytes[at] = static_cast<char>(bytes[at] + 1);
    call_once();
  }
  munmap(memory, kBytes);
  return nullptr;
}

void* send_for_a_while(void* signals) {
  const auto* const which = static_cast<const int*>(signals);
  constexpr int kTimes = 20'000;
  for (int i = 0; i < kTimes; ++i) must(syscall(SYS_tgkill, getpid(), flood.victim.load(), which[i % 2]), "tgkill");
  return nullptr;
}

void flood_with(int first, int second) {
  int which[] = {first, second};
  flood.victim = flood.unmade = 0;
  flood.deepest = 0;
  flood.parent = getppid();
  handled = 0;
  enough = false;
  struct sigaction handler {};
  handler.sa_handler = [](int) {
    flood.depth = flood.depth + 1;
    if (flood.depth > flood.deepest) flood.deepest = flood.depth;
    ++handled;
    call_once();
    flood.depth = flood.depth - 1;
  };
  for (const int signal : which) sigaddset(&handler.sa_mask, signal);
  for (const int signal : which) must(sigaction(signal, &handler, nullptr), "sigaction");
  pthread_t victim{}, senders[2]{};
  check(pthread_create(&victim, nullptr, be_flooded, nullptr) == 0, "pthread_create");
  while (flood.victim == 0) usleep(100);
  for (pthread_t& sender : senders)
    check(pthread_create(&sender, nullptr, send_for_a_while, which) == 0, "pthread_create");
  for (const pthread_t sender : senders) pthread_join(sender, nullptr);
  enough = true;
  pthread_join(victim, nullptr);
  for (const int signal : which) std::signal(signal, SIG_DFL);
  result("%s, %ld calls unmade, handlers %d deep", handled > 0 ? "handled" : "not handled", flood.unmade.load(),
         flood.deepest);
}

}  // namespace

CASE(a_flood_of_sigsys) {
  flood_with(SIGSYS, SIGSYS);
}

CASE(a_flood_of_both_signals_that_are_never_blocked) {
  flood_with(SIGSYS, SIGBUS);
}

// One that is sent while the program has it blocked comes when it has not, or to who waits for it.
CASE(sent_while_blocked) {
  struct sigaction handler {};
  handler.sa_handler = [](int) { ++handled; };
  for (const int signal : {SIGBUS, SIGSYS, SIGUSR1}) {
    handled = 0;
    must(sigaction(signal, &handler, nullptr), "sigaction");
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, signal);
    must(sigprocmask(SIG_BLOCK, &set, &before), "sigprocmask");
    for (int i = 0; i < 3; ++i) check(pthread_kill(pthread_self(), signal) == 0, "pthread_kill");
    const int while_blocked = handled;
    must(sigprocmask(SIG_SETMASK, &before, nullptr), "sigprocmask");
    const int afterwards = handled;
    must(sigprocmask(SIG_BLOCK, &set, nullptr), "sigprocmask");
    check(pthread_kill(pthread_self(), signal) == 0, "pthread_kill");
    usleep(1000);
    const timespec none{};
    const int waited = sigtimedwait(&set, nullptr, &none);
    check(pthread_kill(pthread_self(), signal) == 0, "pthread_kill");
    const int before_suspend = handled;
    check(sigsuspend(&before) == -1 && errno == EINTR, "sigsuspend");
    result("%d: %d, then %d; waited for %d; suspended until %d", signal, while_blocked, afterwards, waited,
           handled - before_suspend);
    must(sigprocmask(SIG_SETMASK, &before, nullptr), "sigprocmask");
    std::signal(signal, SIG_DFL);
  }
}

namespace {

void* do_nothing(void*) {
  return nullptr;
}

}  // namespace

// Threads are sent signals at every moment of their life.
CASE(sent_to_threads_as_they_begin_and_end) {
  constexpr int kThreads = 200;
  struct sigaction handler {};
  handler.sa_handler = [](int) { ++handled; };
  for (const int signal : {SIGBUS, SIGSYS}) must(sigaction(signal, &handler, nullptr), "sigaction");
  for (int i = 0; i < kThreads; ++i) {
    pthread_t thread{};
    check(pthread_create(&thread, nullptr, do_nothing, nullptr) == 0, "pthread_create");
    for (int k = 0; k < 20; ++k) (void)pthread_kill(thread, k % 2 == 0 ? SIGBUS : SIGSYS);
    pthread_join(thread, nullptr);
  }
  for (const int signal : {SIGBUS, SIGSYS}) std::signal(signal, SIG_DFL);
  result("%d threads", kThreads);
}

// What a process sends itself has come before kill() returns: no other thread than its own takes it.
CASE(sent_to_the_process_itself) {
  struct sigaction handler {};
  handler.sa_handler = [](int) { ++handled; };
  for (const int signal : {SIGSEGV, SIGBUS, SIGSYS, SIGILL, SIGTRAP, SIGFPE, SIGABRT, SIGQUIT, SIGTERM}) {
    handled = 0;
    must(sigaction(signal, &handler, nullptr), "sigaction");
    int late = 0;
    for (int round = 1; round <= 200; ++round) {
      must(kill(getpid(), signal), "kill");
      late += handled != round;
    }
    std::signal(signal, SIG_DFL);
    result("%d: %d late; ", signal, late);
  }
}

namespace {

bool first_thread_has_ended() {
  char stat[512] = {};
  const int file = open("/proc/self/stat", O_RDONLY);
  if (file < 0 || read(file, stat, sizeof stat - 1) < 0) _exit(100);
  close(file);
  const char* const name_end = std::strrchr(stat, ')');
  return name_end != nullptr && name_end[2] == 'Z';
}

void* send_when_alone(void*) {
  for (int look = 0; !first_thread_has_ended(); ++look) {
    if (look == 10'000) _exit(102);
    usleep(1000);
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGTERM}) must(kill(getpid(), signal), "kill");
  _exit(handled);
}

}  // namespace

CASE(sent_to_a_process_whose_first_thread_has_ended) {
  const pid_t child = static_cast<pid_t>(must(fork(), "fork"));
  if (child == 0) {
    handled = 0;
    struct sigaction handler {};
    handler.sa_handler = [](int) { ++handled; };
    for (const int signal : {SIGSEGV, SIGBUS, SIGTERM}) sigaction(signal, &handler, nullptr);
    pthread_t thread{};
    if (pthread_create(&thread, nullptr, send_when_alone, nullptr) != 0) _exit(101);
    syscall(SYS_exit, 0);
  }
  int status = 0;
  must(waitpid(child, &status, 0), "waitpid");
  result("status %x", static_cast<unsigned>(status));
}

// A process ends, and becomes another program, also while one waits for it that it has blocked.
CASE(an_end_while_one_is_blocked) {
  for (const int signal : {SIGBUS, SIGSYS}) {
    for (const bool handles : {true, false}) {
      for (const bool executes : {false, true}) {
        const pid_t child = static_cast<pid_t>(must(fork(), "fork"));
        if (child == 0) {
          std::signal(signal, handles ? [](int) { ++handled; } : SIG_DFL);
          sigset_t set;
          sigemptyset(&set);
          sigaddset(&set, signal);
          sigprocmask(SIG_BLOCK, &set, nullptr);
          raise(signal);
          if (executes) execl("/bin/sh", "sh", "-c", "exit 8", nullptr);
          _exit(7);
        }
        int status = 0;
        must(waitpid(child, &status, 0), "waitpid");
        result("%x ", static_cast<unsigned>(status));
      }
    }
  }
}

namespace {

// What happens to calls of this number; they bring SIGSYS if nothing else is said.
bool trap(int number, std::uint32_t action = SECCOMP_RET_TRAP) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{4, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

void answer_trap(int, siginfo_t* info, void* context) {
  auto* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  seen_value = info->si_syscall;
  seen_number = info->si_call_addr == reinterpret_cast<void*>(registers[REG_RIP]) ? registers[REG_RAX] : -1;
  registers[REG_RAX] = 42;
}

}  // namespace

CASE_APART(calls_that_a_filter_stops) {
  struct sigaction handler {};
  handler.sa_sigaction = answer_trap;
  handler.sa_flags = SA_SIGINFO;
  must(sigaction(SIGSYS, &handler, nullptr), "sigaction");
  check(trap(SYS_getppid), "prctl");
  evict();
  const long answer = syscall(SYS_getppid);
  result("answered %ld, of call %d; ", answer, seen_value);
  seen_value = 0;
  char* const text = place_string("written all the same");
  int ends[2];
  must(pipe(ends), "pipe");
  result("%ld bytes, %ld", EVICTED(write(ends[1], text, 20)), syscall(SYS_getppid));
  close(ends[0]), close(ends[1]);
}

// Also those of which the gate makes something else.
CASE_APART(calls_about_the_process_that_a_filter_stops) {
  constexpr int kCloseRange = 436;
  struct sigaction handler {};
  handler.sa_sigaction = answer_trap;
  handler.sa_flags = SA_SIGINFO;
  must(sigaction(SIGSYS, &handler, nullptr), "sigaction");
  void* const pages = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(pages != MAP_FAILED, "mmap");
  evict();
  const auto stopped = [](int number, long answer) {
    result("%ld, of call %d of %d with %ld; ", answer, seen_value, number, seen_number);
    seen_value = 0;
  };
  check(trap(SYS_dup2), "prctl");
  stopped(SYS_dup2, syscall(SYS_dup2, 0, 100));
  check(trap(kCloseRange), "prctl");
  stopped(kCloseRange, syscall(kCloseRange, 3000, 3001, 0));
  const pid_t child = vfork();
  if (child == 0) _exit(7);
  int status = 0;
  result("child %d; ", waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1);
  check(trap(SYS_clone), "prctl");
  stopped(SYS_clone, syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  check(trap(SYS_mremap), "prctl");
  stopped(SYS_mremap, syscall(SYS_mremap, pages, 1 << 20, 2 << 20, MREMAP_MAYMOVE, 0));
  check(trap(SYS_munmap), "prctl");
  stopped(SYS_munmap, syscall(SYS_munmap, pages, 1 << 20));
  static_cast<char*>(pages)[5000] = 3;
  result("still %d; ", static_cast<char*>(pages)[5000]);
  check(trap(SYS_ptrace), "prctl");
  stopped(SYS_ptrace, syscall(SYS_ptrace, 0, 0, 0, 0));
}

// Calls that the program is allowed, though the kernel knows them by other names, or comex would make others for them.
CASE_APART(calls_beside_those_that_a_filter_stops) {
  char* const memory =
      static_cast<char*>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  fill(memory, 1 << 20, 12);
  evict();
  check(trap(SYS_fork, SECCOMP_RET_ERRNO | EPERM), "prctl");
  check(trap(SYS_msync, SECCOMP_RET_KILL_PROCESS), "prctl");
  check(mmap(memory, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_FIXED, 1000, 0) == MAP_FAILED, "no such file");
  const pid_t child = vfork();
  if (child == 0) _exit(7);
  int status = 0;
  result("child %d; ", waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1);
  struct sigaction handler {};
  handler.sa_sigaction = answer_trap;
  handler.sa_flags = SA_SIGINFO;
  must(sigaction(SIGSYS, &handler, nullptr), "sigaction");
  check(trap(SYS_munmap), "prctl");
  result("%d, %08x", munmap(memory, 1 << 20), digest(memory, 1 << 20));
}

namespace {

std::atomic<int> buses;
std::atomic<bool> all_sent;

// How many of the signals that are sent one after the other are never handled.
void* send_one_by_one(void* to) {
  long lost = 0;
  for (int i = 0; i < 300 && lost < 3; ++i) {
    const int before = buses;
    pthread_kill(*static_cast<pthread_t*>(to), SIGBUS);
    timespec begin{}, now{};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while (buses == before && now.tv_sec - begin.tv_sec < 3);
    if (buses == before) ++lost;
  }
  all_sent = true;
  return reinterpret_cast<void*>(lost);
}

}  // namespace

CASE_APART(sent_while_a_filter_stops_calls) {
  std::signal(SIGBUS, [](int) { ++buses; });
  std::signal(SIGSYS, [](int) {});
  check(trap(SYS_getppid) && trap(SYS_mremap), "prctl");
  void* const pages = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_t self = pthread_self(), thread{};
  check(pthread_create(&thread, nullptr, send_one_by_one, &self) == 0, "pthread_create");
  while (!all_sent) {
    syscall(SYS_getppid);
    syscall(SYS_mremap, pages, 1 << 20, 2 << 20, MREMAP_MAYMOVE, 0);
  }
  void* lost = nullptr;
  pthread_join(thread, &lost);
  result("lost %ld", reinterpret_cast<long>(lost));
}

// Also such as are made without a trap otherwise.
CASE_APART(direct_calls_that_a_filter_stops) {
  struct sigaction handler {};
  handler.sa_sigaction = answer_trap;
  handler.sa_flags = SA_SIGINFO;
  must(sigaction(SIGSYS, &handler, nullptr), "sigaction");
  int ends[2];
  must(pipe(ends), "pipe");
  char* const text = place_string("written all the same");
  must(write(ends[1], text, 20), "write");
  check(trap(SYS_read), "prctl");
  const ssize_t answer = read(ends[0], text, 20);
  result("answered %ld, of call %d", answer, seen_value);
  close(ends[0]), close(ends[1]);
}

// A thread that has them blocked, as all have, gets them, and ends: they are the process's still.
CASE_APART(sent_to_the_process_by_a_thread_that_ends) {
  sigset_t set;
  sigfillset(&set);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  for (const int signal : {SIGBUS, SIGSYS, SIGUSR1}) {
    pthread_t thread{};
    const auto send = [](void* which) -> void* {
      kill(getpid(), static_cast<int>(reinterpret_cast<long>(which)));
      return nullptr;
    };
    check(pthread_create(&thread, nullptr, send, reinterpret_cast<void*>(long{signal})) == 0, "pthread_create");
    pthread_join(thread, nullptr);
    const timespec patience{10, 0};
    result("signal %d, ", sigtimedwait(&set, nullptr, &patience));
  }
}

namespace {

struct Waiter {
  sigset_t set;
  std::atomic<int> thread{0};
};

void* wait_for_any(void* argument) {
  auto& waiter = *static_cast<Waiter*>(argument);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  pthread_sigmask(SIG_BLOCK, &waiter.set, nullptr);
  waiter.thread = gettid();
  int signal = 0;
  sigwait(&waiter.set, &signal);
  return reinterpret_cast<void*>(static_cast<long>(signal));
}

}  // namespace

// Who cannot be cancelled waits on.
CASE_APART(cancelled_while_it_waits_for_a_signal) {
  Waiter waiter;
  sigfillset(&waiter.set);
  pthread_t thread{};
  check(pthread_create(&thread, nullptr, wait_for_any, &waiter) == 0, "pthread_create");
  while (waiter.thread == 0) usleep(1000);
  usleep(20'000);  // most likely it waits by now
  check(pthread_cancel(thread) == 0, "pthread_cancel");
  usleep(20'000);
  check(pthread_kill(thread, SIGUSR1) == 0, "pthread_kill");
  void* signal = nullptr;
  pthread_join(thread, &signal);
  result("signal %ld", reinterpret_cast<long>(signal));
}

namespace {

// Waits for a signal that does not come, and says whether that took as long as it should.
void* wait_for_a_second(void* argument) {
  auto& waiter = *static_cast<Waiter*>(argument);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  pthread_sigmask(SIG_BLOCK, &waiter.set, nullptr);
  timespec begin{}, end{};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  waiter.thread = gettid();
  const timespec patience{1, 0};
  const int signal = sigtimedwait(&waiter.set, nullptr, &patience);
  const int error = errno;
  clock_gettime(CLOCK_MONOTONIC, &end);
  const double took =
      static_cast<double>(end.tv_sec - begin.tv_sec) + static_cast<double>(end.tv_nsec - begin.tv_nsec) / 1e9;
  return reinterpret_cast<void*>(signal == -1 && error == EAGAIN && took >= 1 && took < 1.7 ? 1L : 0L);
}

}  // namespace

CASE_APART(cancelled_while_it_waits_for_a_while) {
  Waiter waiter;
  sigfillset(&waiter.set);
  pthread_t thread{};
  check(pthread_create(&thread, nullptr, wait_for_a_second, &waiter) == 0, "pthread_create");
  while (waiter.thread == 0) usleep(1000);
  usleep(800'000);
  check(pthread_cancel(thread) == 0, "pthread_cancel");
  void* in_time = nullptr;
  pthread_join(thread, &in_time);
  result("in time: %ld", reinterpret_cast<long>(in_time));
}

namespace {

struct Interrupted {
  int from;
  std::atomic<int> thread{0};
};

void* read_until_interrupted(void* argument) {
  auto& mine = *static_cast<Interrupted*>(argument);
  char byte = 0;
  mine.thread = gettid();
  const ssize_t got = read(mine.from, &byte, 1);
  return reinterpret_cast<void*>(got == -1 ? long{errno} : 0L);
}

void* wait_for_ever(void*) {
  for (;;) pause();
}

}  // namespace

// Others may have been cancelled meanwhile.
CASE_APART(interrupted_after_another_was_cancelled) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  must(sigaction(SIGUSR1, &action, nullptr), "sigaction");
  int ends[2];
  must(pipe(ends), "pipe");
  Interrupted reader{ends[0]};
  pthread_t reading{}, other{};
  check(pthread_create(&reading, nullptr, read_until_interrupted, &reader) == 0, "pthread_create");
  while (reader.thread == 0) usleep(1000);
  usleep(20'000);  // most likely it reads by now
  check(pthread_create(&other, nullptr, wait_for_ever, nullptr) == 0, "pthread_create");
  check(pthread_cancel(other) == 0, "pthread_cancel");
  pthread_join(other, nullptr);
  check(pthread_kill(reading, SIGUSR1) == 0, "pthread_kill");
  void* error = nullptr;
  pthread_join(reading, &error);
  result("%s", std::strerror(static_cast<int>(reinterpret_cast<long>(error))));
  close(ends[0]), close(ends[1]);
}

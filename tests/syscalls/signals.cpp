// Signals: actions, masks, stacks in evicted memory, and waiting for signals.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
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

// Touches more than a tight budget has room for, so that signals find it waiting for pages.
void* keep_touching(void*) {
  constexpr std::size_t kBytes = std::size_t{24} << 20;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const bytes = static_cast<volatile char*>(memory);
  for (std::size_t at = 0; !enough; at = (at + 4096) % kBytes) bytes[at] = static_cast<char>(bytes[at] + 1);
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

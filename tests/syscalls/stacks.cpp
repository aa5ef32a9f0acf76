// Handlers that do not come back, or come back late, and stacks that are away when a signal comes.
#include <poll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "syscalls/suite.h"

using namespace suite;

namespace {

sigjmp_buf way_out;
ucontext_t outside, inside;
volatile long count = 0;

void leave(int) {
  siglongjmp(way_out, 1);
}
void switch_away(int) {
  swapcontext(&inside, &outside);
  count = count + 1;
}
void count_up(int) {
  count = count + 1;
}

void signal_thread(void* thread) {
  must(syscall(SYS_tgkill, getpid(), *static_cast<long*>(thread), SIGUSR1), "tgkill");
}

void plain_handler(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigfillset(&action.sa_mask);
  must(sigaction(signal, &action, nullptr), "sigaction");
}

// A signal of its own: the suite needs SIGALRM.
class Timer {
 public:
  Timer() {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR2;
    must(timer_create(CLOCK_MONOTONIC, &event, &timer_), "timer_create");
  }
  ~Timer() { timer_delete(timer_); }
  void set(long microseconds) {
    itimerspec once{};
    once.it_value.tv_nsec = microseconds * 1000;
    must(timer_settime(timer_, 0, &once, nullptr), "timer_settime");
  }

 private:
  timer_t timer_{};
};

// Goes down the stack until it ends.
[[gnu::noinline]] long deeper(volatile char* above) {
  volatile char here[4096];
  here[0] = *above;
  return count < 0 ? 0 : deeper(here) + here[0];
}

}  // namespace

CASE(reads_left_by_siglongjmp) {
  int ends[2];
  must(pipe(ends), "pipe");
  char* buffer = place<char>(64);
  plain_handler(SIGUSR2, leave, 0);
  Timer timer;
  volatile int left = 0;
  for (static int i = 0; i < 1000; ++i) {
    if (sigsetjmp(way_out, 1) == 0) {
      timer.set(200);
      left = left + static_cast<int>(read(ends[0], buffer, 64));
    } else {
      left = left + 1;
    }
  }
  std::signal(SIGUSR2, SIG_DFL);
  evict();
  must(write(ends[1], "after", 5), "write");
  const long n = EVICTED(read(ends[0], buffer, 64));
  result("left %d times, then %ld bytes", left, n);
  close(ends[0]), close(ends[1]);
}

CASE(coroutines_on_evicted_stacks) {
  constexpr int kCoroutines = 8;
  constexpr std::size_t kStack = 65536;
  static ucontext_t scheduler, contexts[kCoroutines];
  static long sum = 0;
  sum = 0;
  const auto body = [](int number) {
    char local[2048];
    fill(local, sizeof local, static_cast<std::uint32_t>(number));
    const auto before = digest(local, sizeof local);
    for (int i = 0; i < 3; ++i) {
      getppid();
      swapcontext(&contexts[number], &scheduler);
      char text[16];
      sum += std::snprintf(text, sizeof text, "%d", number);
    }
    check(digest(local, sizeof local) == before, "a stack has changed");
  };
  void (*const start)(int) = body;
  for (int i = 0; i < kCoroutines; ++i) {
    getcontext(&contexts[i]);
    contexts[i].uc_stack.ss_sp = place_bytes(kStack, 64);
    contexts[i].uc_stack.ss_size = kStack;
    contexts[i].uc_link = &scheduler;
    makecontext(&contexts[i], reinterpret_cast<void (*)()>(start), 1, i);
  }
  for (int round = 0; round < 4; ++round) {
    for (auto& context : contexts) {
      evict();
      must(swapcontext(&scheduler, &context), "swapcontext");
    }
  }
  result("sum %ld", sum);
}

CASE(signal_on_an_evicted_stack) {
  constexpr std::size_t kStack = 131072;
  static ucontext_t here, there;
  count = 0;
  plain_handler(SIGUSR1, count_up, 0);
  getcontext(&there);
  there.uc_stack.ss_sp = place_bytes(kStack, 64);
  there.uc_stack.ss_size = kStack;
  there.uc_link = &here;
  makecontext(
      &there,
      +[] {
        for (int i = 0; i < 3; ++i) {
          evict();
          raise(SIGUSR1);
        }
      },
      0);
  must(swapcontext(&here, &there), "swapcontext");
  result("handled %ld times", count);
}

CASE(handler_that_switches_away_and_back) {
  constexpr std::size_t kStack = 131072;
  count = 0;
  plain_handler(SIGUSR1, switch_away, 0);
  static int ends[2];
  static char* buffer;
  static long got;
  must(pipe(ends), "pipe");
  buffer = place<char>(64);
  static ucontext_t reader;
  getcontext(&reader);
  reader.uc_stack.ss_sp = place_bytes(kStack, 64);
  reader.uc_stack.ss_size = kStack;
  reader.uc_link = &outside;
  makecontext(
      &reader, +[] { got = read(ends[0], buffer, 64); }, 0);
  long thread = gettid();
  {
    Later sender(signal_thread, &thread);
    must(swapcontext(&outside, &reader), "swapcontext");
  }
  const long during = count;
  must(write(ends[1], "later", 5), "write");
  evict();
  must(swapcontext(&outside, &inside), "swapcontext");
  result("before %ld, after %ld, read %ld", during, count, got);
  close(ends[0]), close(ends[1]);
}

CASE(read_goes_on_after_a_handler) {
  int ends[2];
  must(pipe(ends), "pipe");
  count = 0;
  plain_handler(SIGUSR1, count_up, SA_RESTART);
  struct Both {
    long thread;
    int end;
  };
  static Both both;
  both = {gettid(), ends[1]};
  char* buffer = place<char>(64);
  long n = 0;
  {
    Later sender(
        [](void*) {
          must(syscall(SYS_tgkill, getpid(), both.thread, SIGUSR1), "tgkill");
          while (count == 0) usleep(1000);
          must(write(both.end, "restarted", 9), "write");
        },
        nullptr);
    n = EVICTED(read(ends[0], buffer, 64));
  }
  plain_handler(SIGUSR1, count_up, 0);
  long thread = gettid();
  errno = 0;
  {
    Later sender(signal_thread, &thread);
    check(read(ends[0], buffer, 64) == -1, "the read was not interrupted");
  }
  result("%ld bytes, handled %ld times, then %s", n, count, std::strerror(errno));
  close(ends[0]), close(ends[1]);
}

CASE(waits_with_every_signal_blocked) {
  sigset_t all, before, told;
  sigfillset(&all);
  int ends[2];
  must(pipe(ends), "pipe");
  must(write(ends[1], "x", 1), "write");
  pollfd one{ends[0], POLLIN, 0};
  const timespec time{1, 0};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(ends[0], &set);
  evict();
  const int polled = ppoll(&one, 1, &time, &all);
  const int selected = pselect(ends[0] + 1, &set, nullptr, nullptr, &time, &all);
  must(sigprocmask(SIG_SETMASK, &all, &before), "sigprocmask");
  evict();
  must(sigprocmask(SIG_SETMASK, &before, &told), "sigprocmask");
  result("%d %d ready, SIGBUS blocked %d, SIGSYS blocked %d, SIGUSR1 blocked %d", polled, selected,
         sigismember(&told, SIGBUS), sigismember(&told, SIGSYS), sigismember(&told, SIGUSR1));
  close(ends[0]), close(ends[1]);
}

CASE(overflow_handled_on_another_stack) {
  constexpr std::size_t kStack = 65536;
  stack_t other{}, old{};
  other.ss_sp = place_bytes(kStack, 64);
  other.ss_size = kStack;
  must(sigaltstack(&other, &old), "sigaltstack");
  plain_handler(SIGSEGV, leave, SA_ONSTACK);
  volatile int caught = 0;
  for (static int i = 0; i < 3; ++i) {
    evict();
    if (sigsetjmp(way_out, 1) == 0) {
      char top = 0;
      count = deeper(&top);
    } else {
      caught = caught + 1;
    }
  }
  std::signal(SIGSEGV, SIG_DFL);
  must(sigaltstack(&old, nullptr), "sigaltstack");
  result("caught %d times", caught);
}

// Waiting for descriptors, and the descriptors that are made to be waited for.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "syscalls/suite.h"

using namespace suite;

namespace {

void count_up(void* fd) {
  const std::uint64_t one = 1;
  check(write(*static_cast<int*>(fd), &one, sizeof one) == sizeof one, "write");
}

int event() {
  return static_cast<int>(must(eventfd(0, EFD_CLOEXEC), "eventfd"));
}

timespec* ten_seconds() {
  auto* time = place<timespec>();
  time->tv_sec = 10;
  return time;
}

sigset_t* mask_of(int signal) {
  auto* mask = place<sigset_t>();
  sigemptyset(mask);
  sigaddset(mask, signal);
  return mask;
}

}  // namespace

CASE(poll_while_blocked) {
  int fd = event();
  auto* wanted = place<pollfd>(3);
  for (int i = 0; i < 3; ++i) wanted[i] = {i == 1 ? fd : -1, POLLIN, 0};
  Later writer(count_up, &fd);
  const long n = EVICTED(syscall(SYS_poll, wanted, 3, 10000));
  result("%ld ready, %d %d %d", n, wanted[0].revents, wanted[1].revents, wanted[2].revents);
  close(fd);
}

CASE(ppoll_while_blocked) {
  int fd = event();
  auto* wanted = place<pollfd>(2);
  wanted[0] = {fd, POLLIN, 0};
  wanted[1] = {-1, 0, 0};
  auto* time = ten_seconds();
  auto* mask = mask_of(SIGUSR2);
  Later writer(count_up, &fd);
  const long n = EVICTED(syscall(SYS_ppoll, wanted, 2, time, mask, 8));
  result("%ld ready, %d", n, wanted[0].revents);
  close(fd);
}

CASE(select_while_blocked) {
  int fd = event();
  auto *readable = place<fd_set>(), *writable = place<fd_set>();
  FD_SET(fd, readable);
  auto* time = place<timeval>();
  time->tv_sec = 10;
  Later writer(count_up, &fd);
  const long n = EVICTED(syscall(SYS_select, fd + 1, readable, writable, nullptr, time));
  result("%ld ready, %d", n, FD_ISSET(fd, readable) ? 1 : 0);
  close(fd);
}

CASE(pselect_while_blocked) {
  int fd = event();
  auto* readable = place<fd_set>();
  FD_SET(fd, readable);
  struct MaskAndSize {
    sigset_t* mask;
    std::size_t bytes;
  };
  auto* pair = place<MaskAndSize>();
  *pair = {mask_of(SIGUSR2), 8};
  auto* time = ten_seconds();
  Later writer(count_up, &fd);
  const long n = EVICTED(syscall(SYS_pselect6, fd + 1, readable, nullptr, nullptr, time, pair));
  result("%ld ready, %d", n, FD_ISSET(fd, readable) ? 1 : 0);
  close(fd);
}

CASE(epoll_while_blocked) {
  int fd = event();
  const int epoll = static_cast<int>(must(epoll_create1(EPOLL_CLOEXEC), "epoll_create1"));
  auto *wanted = place<epoll_event>(), *got = place<epoll_event>(400);
  wanted->events = EPOLLIN;
  wanted->data.u64 = 0x123456789abcdef;
  EVICTED(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, wanted));
  Later writer(count_up, &fd);
  const long n = EVICTED(syscall(SYS_epoll_wait, epoll, got, 400, 10000));
  const long again = EVICTED(syscall(SYS_epoll_pwait, epoll, got + 100, 100, 10000, mask_of(SIGUSR2), 8));
  const long third =
      EVICTED_OR_SKIP(syscall(SYS_epoll_pwait2, epoll, got + 200, 100, ten_seconds(), mask_of(SIGUSR2), 8));
  result("%ld %ld %ld ready, %llx", n, again, third, (unsigned long long)got->data.u64);
  close(fd), close(epoll);
}

CASE(eventfd_read_while_blocked) {
  int fd = event();
  auto* value = place<std::uint64_t>();
  Later writer(count_up, &fd);
  const long n = EVICTED(read(fd, value, 8));
  result("%ld bytes, %llu", n, (unsigned long long)*value);
  close(fd);
}

CASE(timerfd_expires) {
  const int fd = static_cast<int>(must(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), "timerfd_create"));
  auto *set = place<itimerspec>(), *old = place<itimerspec>(), *now = place<itimerspec>();
  set->it_value.tv_nsec = 30000000;
  EVICTED(timerfd_settime(fd, 0, set, old));
  EVICTED(timerfd_gettime(fd, now));
  auto* times = place<std::uint64_t>();
  const long n = EVICTED(read(fd, times, 8));
  result("%ld bytes, expired %llu times, %ld", n, (unsigned long long)*times, (long)old->it_value.tv_sec);
  close(fd);
}

CASE(signalfd_reads) {
  auto* mask = mask_of(SIGUSR1);
  EVICTED(syscall(SYS_rt_sigprocmask, SIG_BLOCK, mask, nullptr, 8));
  const int fd = static_cast<int>(EVICTED(syscall(SYS_signalfd4, -1, mask, 8, SFD_CLOEXEC)));
  must(kill(getpid(), SIGUSR1), "kill");
  auto* info = place<signalfd_siginfo>(2);
  const long n = EVICTED(read(fd, info, 2 * sizeof *info));
  EVICTED(syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, mask, nullptr, 8));
  result("%ld bytes, signal %u", n, info->ssi_signo == SIGUSR1 ? 1U : 0U);
  close(fd);
}

CASE(inotify_reads) {
  const int fd = static_cast<int>(must(inotify_init1(IN_CLOEXEC), "inotify_init1"));
  const int watch = static_cast<int>(EVICTED(inotify_add_watch(fd, place_path("."), IN_CREATE)));
  close(make_file("watched", 1, 1));
  char* buffer = place<char>(4000);
  const long n = EVICTED(read(fd, buffer, 4000));
  result("%ld bytes, %s", n, buffer + 16);
  inotify_rm_watch(fd, watch);
  close(fd);
}

CASE(terminal_ioctls) {
  const int terminal = static_cast<int>(must_or_skip(posix_openpt(O_RDWR | O_NOCTTY), "posix_openpt"));
  auto *size = place<winsize>(), *back = place<winsize>();
  size->ws_row = 33;
  size->ws_col = 77;
  EVICTED(ioctl(terminal, TIOCSWINSZ, size));
  EVICTED(ioctl(terminal, TIOCGWINSZ, back));
  auto* settings = place<termios>();
  EVICTED(ioctl(terminal, TCGETS, settings));
  EVICTED(ioctl(terminal, TCSETS, settings));
  result("%u rows, %u columns", back->ws_row, back->ws_col);
  close(terminal);
}

CASE(bytes_waiting) {
  int* ends = place<int>(2);
  EVICTED(syscall(SYS_pipe, ends));
  must(write(ends[1], "12345", 5), "write");
  int* waiting = place<int>();
  EVICTED(ioctl(ends[0], FIONREAD, waiting));
  result("%d bytes", *waiting);
  close(ends[0]), close(ends[1]);
}

// Twice: the first cancellation of a program may find the thread in a call that was begun when there was none.
CASE(cancelled_while_blocked) {
  int ends[2];
  must(pipe(ends), "pipe");
  const auto read_for_ever = [](void* from) -> void* {
    char* buffer = new char[64];
    for (;;) {
      if (read(*static_cast<int*>(from), buffer, 64) == 0) return nullptr;
    }
  };
  int cancelled = 0;
  for (int i = 0; i < 2; ++i) {
    pthread_t thread;
    check(pthread_create(&thread, nullptr, read_for_ever, &ends[0]) == 0, "pthread_create");
    must(write(ends[1], "x", 1), "write");
    usleep(20000);  // it is in its second call by now; nothing is wrong if it is not
    evict();
    check(pthread_cancel(thread) == 0, "pthread_cancel");
    void* answer = nullptr;
    check(pthread_join(thread, &answer) == 0, "pthread_join");
    cancelled += answer == PTHREAD_CANCELED ? 1 : 0;
  }
  result("%d cancelled", cancelled);
  close(ends[0]), close(ends[1]);
}

// Clocks, timers and sleeping.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "syscalls/suite.h"

using namespace suite;

CASE(clocks) {
  auto *now = place<timespec>(), *resolution = place<timespec>();
  auto* of_day = place<timeval>();
  auto* seconds = place<time_t>();
  EVICTED(syscall(SYS_clock_gettime, CLOCK_REALTIME, now));
  EVICTED(syscall(SYS_clock_getres, CLOCK_MONOTONIC, resolution));
  EVICTED(syscall(SYS_gettimeofday, of_day, place<int>(2)));
  EVICTED(syscall(SYS_time, seconds));
  const auto close_to = [now](long other) { return other >= now->tv_sec && other - now->tv_sec < 60; };
  check(close_to(of_day->tv_sec) && close_to(*seconds + 1), "the clocks disagree");
  result("they agree, resolution %ld ns", resolution->tv_nsec);
}

CASE(sleeping) {
  auto *time = place<timespec>(), *left = place<timespec>();
  time->tv_nsec = 5000000;
  EVICTED(syscall(SYS_nanosleep, time, left));
  EVICTED(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, time, left));
  result("slept twice");
}

CASE(interval_timer) {
  auto *set = place<itimerval>(), *old = place<itimerval>(), *now = place<itimerval>();
  set->it_value.tv_sec = 1000;
  set->it_interval.tv_sec = 77;
  EVICTED(setitimer(ITIMER_VIRTUAL, set, nullptr));
  EVICTED(getitimer(ITIMER_VIRTUAL, now));
  *set = {};
  EVICTED(setitimer(ITIMER_VIRTUAL, set, old));
  result("interval %ld and %ld", (long)now->it_interval.tv_sec, (long)old->it_interval.tv_sec);
}

CASE(posix_timer) {
  auto* event = place<sigevent>();
  event->sigev_notify = SIGEV_NONE;
  int* timer = place<int>();
  EVICTED(syscall(SYS_timer_create, CLOCK_MONOTONIC, event, timer));
  auto *set = place<itimerspec>(), *old = place<itimerspec>(), *now = place<itimerspec>();
  set->it_value.tv_sec = 1000;
  set->it_interval.tv_sec = 55;
  EVICTED(syscall(SYS_timer_settime, *timer, 0, set, old));
  EVICTED(syscall(SYS_timer_gettime, *timer, now));
  must(syscall(SYS_timer_delete, *timer), "timer_delete");
  result("interval %ld", (long)now->it_interval.tv_sec);
}

CASE(usage) {
  auto* use = place<rusage>();
  EVICTED(syscall(SYS_getrusage, RUSAGE_SELF, use));
  auto* ticks = place<tms>();
  EVICTED(syscall(SYS_times, ticks));
  check(use->ru_maxrss > 0, "no memory used");
  result("used");
}

CASE(adjtimex_reads) {
  auto *a = place<timex>(), *b = place<timex>();
  EVICTED_OR_SKIP(syscall(SYS_adjtimex, a));
  EVICTED_OR_SKIP(syscall(SYS_clock_adjtime, CLOCK_REALTIME, b));
  check(a->tick > 0 && a->tick == b->tick, "the ticks differ");
  result("the same tick");
}

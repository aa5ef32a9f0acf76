// The table against the kernel itself: with inaccessible memory right behind the range that the table claims a call
// must succeed; with the range one byte into it, a call that copies a whole structure must fail with EFAULT.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "run/syscalls/recording_visitor_test.h"
#include "run/syscalls/syscall_table.h"

namespace comex::syscalls {
namespace {

constexpr std::size_t kPages = 4, kPageBytes = 4096;

// Some pages, and inaccessible memory behind them.
class Guarded {
 public:
  Guarded()
      : memory_(mmap(nullptr, (kPages + 1) * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    mprotect(static_cast<char*>(memory_) + kPages * kPageBytes, kPageBytes, PROT_NONE);
  }
  ~Guarded() { munmap(memory_, (kPages + 1) * kPageBytes); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  [[nodiscard]] std::uint64_t end() const { return reinterpret_cast<std::uint64_t>(memory_) + kPages * kPageBytes; }
  void clear() { std::memset(memory_, 0, kPages * kPageBytes); }

 private:
  void* memory_;
};

struct GuardCase {
  const char* name;
  std::size_t pointer;  // the argument under test
  std::array<std::uint64_t, kArguments> others;
};

std::uint64_t address(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

std::uint64_t number_or_none(std::string_view name) {
  for (std::uint64_t number = 0; number < kEntries; ++number)
    if (entry(number).name == name) return number;
  return UINT64_MAX;
}

// How far the table says the memory behind the argument goes.
std::size_t claimed(Call call, std::size_t pointer, Guarded& memory) {
  call.arguments[pointer] = memory.end() - 2 * kPageBytes;
  RecordingVisitor visitor;
  visitor.real = true;
  enumerate(call, visitor);
  std::size_t most = 0;
  for (const Range& range : visitor.ranges)
    if (range.address == call.arguments[pointer]) most = std::max(most, range.bytes);
  return most;
}

long make(Call call) {
  const auto& a = call.arguments;
  const long value = syscall(static_cast<long>(call.number), a[0], a[1], a[2], a[3], a[4], a[5]);
  // Descriptors that the call made are of no interest.
  const std::string_view name = entry(call.number).name;
  const auto close_both = [](std::uint64_t at) {
    const auto* both = reinterpret_cast<const int*>(at);
    close(both[0]), close(both[1]);
  };
  if (value == 0 && (name == "pipe" || name == "pipe2")) close_both(a[0]);
  if (value == 0 && name == "socketpair") close_both(a[3]);
  return value;
}

bool faults(const Call& call) {
  return make(call) == -1 && errno == EFAULT;
}

// Not here: calls that stop at the fault and report less (read), and those that write no more than there is (getcwd).
TEST(TableAgainstTheKernel, structures_are_as_long_as_it_says) {
  const auto event = static_cast<std::uint64_t>(eventfd(0, 0));
  const auto timer = static_cast<std::uint64_t>(timerfd_create(CLOCK_MONOTONIC, 0));
  const auto epoll = static_cast<std::uint64_t>(epoll_create1(0));
  const auto null = static_cast<std::uint64_t>(open("/dev/null", O_RDWR));
  // select reads no further than the process has descriptors, in steps of 64: one above what it is asked for here.
  const auto high = static_cast<std::uint64_t>(fcntl(static_cast<int>(null), F_DUPFD, 200));
  const std::uint64_t root = address("/"), here = static_cast<std::uint64_t>(AT_FDCWD);
  const std::uint32_t versions[][2] = {{0x19980330, 0}, {0x20080522, 0}};
  std::uint64_t scratch[64] = {};  // zeros, for the arguments that are not under test
  const auto other = address(scratch);
  const GuardCase cases[] = {
      {"stat", 1, {root}},
      {"lstat", 1, {root}},
      {"fstat", 1, {event}},
      {"newfstatat", 2, {here, root}},
      {"statx", 4, {here, root, 0, 0x7ff}},
      {"statfs", 1, {root}},
      {"fstatfs", 1, {null}},
      {"uname", 0, {}},
      {"sysinfo", 0, {}},
      {"times", 0, {}},
      {"getrusage", 1, {}},
      {"getrlimit", 1, {4}},
      {"prlimit64", 3, {0, 4}},
      {"clock_gettime", 1, {1}},
      {"clock_getres", 1, {1}},
      {"gettimeofday", 0, {}},
      {"gettimeofday", 1, {}},
      {"time", 0, {}},
      {"getitimer", 1, {1}},
      {"setitimer", 1, {1}},
      {"setitimer", 2, {1, other}},
      {"getresuid", 0, {0, other, other}},
      {"getresgid", 2, {other, other}},
      {"getcpu", 0, {}},
      {"getcpu", 1, {}},
      {"sched_getparam", 1, {}},
      {"sched_rr_get_interval", 1, {}},
      {"sched_getattr", 1, {0, 0, 48}},
      {"sched_setattr", 1, {}},
      {"sched_setparam", 1, {}},
      {"sigaltstack", 1, {}},
      {"rt_sigaction", 1, {10, 0, 0, 8}},
      {"rt_sigaction", 2, {10, 0, 0, 8}},
      {"rt_sigprocmask", 1, {0, 0, 0, 8}},
      {"rt_sigprocmask", 2, {0, 0, 0, 8}},
      {"rt_sigpending", 0, {0, 8}},
      {"rt_sigtimedwait", 0, {0, 0, other, 8}},
      {"rt_sigtimedwait", 2, {other, 0, 0, 8}},
      {"pipe", 0, {}},
      {"pipe2", 0, {}},
      {"socketpair", 3, {1, 1}},
      {"arch_prctl", 1, {0x1003}},
      {"prctl", 1, {16}},
      {"prctl", 1, {2}},
      {"capget", 1, {address(versions[0])}},
      {"capget", 1, {address(versions[1])}},
      {"adjtimex", 0, {}},
      {"clock_adjtime", 1, {}},
      {"nanosleep", 0, {}},
      {"clock_nanosleep", 2, {1}},
      {"poll", 0, {0, 3}},
      {"ppoll", 2, {}},
      {"select", 1, {1, 0, 0, 0, other}},
      {"select", 2, {65, 0, 0, 0, other}},
      {"select", 4, {}},
      {"pselect6", 4, {}},
      {"pselect6", 5, {0, 0, 0, 0, other}},
      {"epoll_ctl", 3, {epoll, EPOLL_CTL_ADD, event}},
      {"timerfd_settime", 2, {timer}},
      {"timerfd_settime", 3, {timer, 0, other}},
      {"timerfd_gettime", 1, {timer}},
      {"ioctl", 2, {event, 0x5421}},
      {"fcntl", 2, {null, 5}},
      {"fcntl", 2, {null, 16}},
      {"get_robust_list", 1, {0, 0, other}},
      {"get_robust_list", 2, {0, other}},
  };
  Guarded memory;
  for (const GuardCase& one : cases) {
    Call call{number_or_none(one.name), one.others};
    memory.clear();
    const auto bytes = claimed(call, one.pointer, memory);
    ASSERT_GT(bytes, 0U) << one.name;
    call.arguments[one.pointer] = memory.end() - bytes + 1;
    EXPECT_TRUE(faults(call)) << one.name << " does not touch all of " << bytes << " bytes";
    call.arguments[one.pointer] = memory.end() - bytes;
    EXPECT_FALSE(faults(call)) << one.name << " touches more than " << bytes << " bytes";
  }
  for (const auto fd : {event, timer, epoll, null, high}) close(static_cast<int>(fd));
}

}  // namespace
}  // namespace comex::syscalls

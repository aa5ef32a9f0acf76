#include "run/syscalls/syscall_ranges.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "run/syscalls/recording_visitor_test.h"

namespace comex::syscalls {
namespace {

// A call whose arguments are all addresses, except those that `numbers` sets ("2=100"), and what it touches: "1:100w"
// is 100 bytes of argument 1 that the kernel writes. What lies behind the addresses reads as zeros.
struct Case {
  const char* name;
  const char* numbers;
  const char* touches;
};

constexpr std::uint64_t kFirst = 0x70000000, kApart = 0x1000000;

std::uint64_t number_of(std::string_view name) {
  for (std::uint64_t number = 0; number < kEntries; ++number)
    if (entry(number).kind != Class::unknown && entry(number).name == name) return number;
  ADD_FAILURE() << name << " is not in the table";
  return 0;
}

Call make(const Case& wanted) {
  Call call{number_of(wanted.name), {}};
  for (std::size_t i = 0; i < kArguments; ++i) call.arguments[i] = kFirst + i * kApart;
  std::istringstream numbers(wanted.numbers);
  for (std::string word; numbers >> word;)
    call.arguments.at(static_cast<std::size_t>(word[0] - '0')) = std::strtoull(word.c_str() + 2, nullptr, 0);
  return call;
}

std::string touched(const Call& call) {
  RecordingVisitor visitor;
  enumerate(call, visitor);
  std::string text;
  for (const Range& range : visitor.ranges)
    text += (text.empty() ? "" : " ") + std::to_string((range.address - kFirst) / kApart) + ":" +
            std::to_string(range.bytes) + (range.kernel_writes ? "w" : "r");
  return text;
}

constexpr Case kCases[] = {
    {"read", "0=3 2=100", "1:100w"},
    {"write", "0=3 2=5000", "1:5000r"},
    {"open", "1=0", "0:4096r"},
    {"stat", "", "0:4096r 1:144w"},
    {"fstat", "0=3", "1:144w"},
    {"lstat", "", "0:4096r 1:144w"},
    {"poll", "1=3", "0:24w"},
    {"poll", "1=0xffffffff", ""},
    {"rt_sigaction", "0=10 3=8", "1:32r 2:32w"},
    {"rt_sigprocmask", "0=0 3=8", "1:8r 2:8w"},
    {"pread64", "0=3 2=8192 3=0", "1:8192w"},
    {"pwrite64", "0=3 2=1 3=0", "1:1r"},
    {"access", "1=0", "0:4096r"},
    {"pipe", "", "0:8w"},
    {"select", "0=65", "1:16w 2:16w 3:16w 4:16w"},
    {"select", "0=-1 4=0", ""},
    {"mincore", "0=0 1=8193", "2:3w"},
    {"shmctl", "0=1 1=2", "2:112w"},
    {"shmctl", "0=1 1=0", ""},
    {"nanosleep", "", "0:16r 1:16w"},
    {"getitimer", "0=0", "1:32w"},
    {"setitimer", "0=0", "1:32r 2:32w"},
    {"sendfile", "0=3 1=4 3=100", "2:8w"},
    {"connect", "0=3 2=16", "1:16r"},
    {"connect", "0=3 2=-1", ""},
    {"sendto", "0=3 2=100 3=0 5=16", "1:100r 4:16r"},
    {"bind", "0=3 2=110", "1:110r"},
    {"socketpair", "0=1 1=1 2=0", "3:8w"},
    {"setsockopt", "0=3 1=1 2=2 4=4", "3:4r"},
    {"execve", "", "0:4096r 1:256r 2:256r"},
    {"wait4", "0=-1 2=0", "1:4w 3:144w"},
    {"uname", "", "0:390w"},
    {"semop", "0=1 2=2", "1:12r"},
    {"semctl", "0=1 1=0 2=2", "3:104w"},
    {"semctl", "0=1 1=0 2=16", ""},
    {"msgsnd", "0=1 2=100 3=0", "1:108r"},
    {"msgrcv", "0=1 2=100 3=0 4=0", "1:108w"},
    {"msgctl", "0=1 1=2", "2:120w"},
    {"fcntl", "0=3 1=5", "2:32w"},
    {"fcntl", "0=3 1=6", "2:32r"},
    {"fcntl", "0=3 1=4 2=0", ""},
    {"truncate", "1=0", "0:4096r"},
    {"getdents", "0=3 2=1024", "1:1024w"},
    {"getcwd", "1=4096", "0:4096w"},
    {"rename", "", "0:4096r 1:4096r"},
    {"mkdir", "1=0", "0:4096r"},
    {"link", "", "0:4096r 1:4096r"},
    {"unlink", "", "0:4096r"},
    {"symlink", "", "0:4096r 1:4096r"},
    {"readlink", "2=64", "0:4096r 1:64w"},
    {"chmod", "1=0", "0:4096r"},
    {"gettimeofday", "", "0:16w 1:8w"},
    {"getrlimit", "0=0", "1:16w"},
    {"getrusage", "0=0", "1:144w"},
    {"sysinfo", "", "0:112w"},
    {"times", "", "0:32w"},
    {"ptrace", "0=12 1=1", "3:216w"},
    {"syslog", "0=3 2=100", "1:100w"},
    {"getgroups", "0=10", "1:40w"},
    {"setgroups", "0=2", "1:8r"},
    {"getresuid", "", "0:4w 1:4w 2:4w"},
    {"getresgid", "", "0:4w 1:4w 2:4w"},
    {"capget", "", "0:8w 0:4w 1:24w"},
    {"rt_sigpending", "1=8", "0:8w"},
    {"rt_sigtimedwait", "3=8", "0:8r 1:128w 2:16r"},
    {"rt_sigqueueinfo", "0=1 1=10", "2:128r"},
    {"rt_sigsuspend", "1=8", "0:8r"},
    {"sigaltstack", "", "0:24r 1:24w"},
    {"utime", "", "0:4096r 1:16r"},
    {"statfs", "", "0:4096r 1:120w"},
    {"fstatfs", "0=3", "1:120w"},
    {"sched_setparam", "0=0", "1:4r"},
    {"sched_getparam", "0=0", "1:4w"},
    {"sched_rr_get_interval", "0=0", "1:16w"},
    {"modify_ldt", "0=0 2=16", "1:16w"},
    {"prctl", "0=15", "1:16r"},
    {"prctl", "0=16", "1:16w"},
    {"prctl", "0=38 1=1 2=0 3=0 4=0 5=0", ""},
    {"arch_prctl", "0=0x1003", "1:8w"},
    {"adjtimex", "", "0:208w"},
    {"setrlimit", "0=0", "1:16r"},
    {"mount", "3=0", "0:4096r 1:4096r 2:4096r 4:4096r"},
    {"sethostname", "1=5", "0:5r"},
    {"setxattr", "3=10", "0:4096r 1:256r 2:10r"},
    {"getxattr", "3=10", "0:4096r 1:256r 2:10w"},
    {"fgetxattr", "0=3 3=10", "1:256r 2:10w"},
    {"listxattr", "2=10", "0:4096r 1:10w"},
    {"removexattr", "", "0:4096r 1:256r"},
    {"time", "", "0:8w"},
    {"futex", "1=128 2=0", "0:4r 3:16r"},
    {"futex", "1=129 2=1 3=0", "0:4r"},
    {"futex", "1=4 2=1 3=1", "0:4r 4:4r"},
    {"futex", "1=134 2=0", "0:4w 3:16r"},
    {"sched_setaffinity", "0=0 1=128", "2:128r"},
    {"sched_getaffinity", "0=0 1=128", "2:128w"},
    {"io_setup", "0=8", "1:8w"},
    {"io_getevents", "0=0 1=1 2=4", "3:128w 4:16r"},
    {"getdents64", "0=3 2=32768", "1:32768w"},
    {"semtimedop", "0=1 2=1", "1:6r 3:16r"},
    {"timer_create", "0=1", "1:64r 2:4w"},
    {"timer_settime", "0=1 1=0", "2:32r 3:32w"},
    {"timer_gettime", "0=1", "1:32w"},
    {"clock_settime", "0=0", "1:16r"},
    {"clock_gettime", "0=0", "1:16w"},
    {"clock_getres", "0=0", "1:16w"},
    {"clock_nanosleep", "0=0 1=0", "2:16r 3:16w"},
    {"epoll_wait", "0=3 2=10 3=0", "1:120w"},
    {"epoll_wait", "0=3 2=-10 3=0", ""},
    {"epoll_ctl", "0=3 1=1 2=4", "3:12r"},
    {"utimes", "", "0:4096r 1:32r"},
    {"get_mempolicy", "2=65 3=0 4=0", "0:4w 1:8w"},
    {"mq_open", "1=0 2=0", "0:4096r 3:64r"},
    {"mq_timedsend", "0=3 2=9 3=0", "1:9r 4:16r"},
    {"mq_timedreceive", "0=3 2=9", "1:9w 3:4w 4:16r"},
    {"mq_getsetattr", "0=3", "1:64r 2:64w"},
    {"waitid", "0=0 1=0 3=4", "2:128w 4:144w"},
    {"add_key", "3=7 4=0", "0:32r 1:4096r 2:7r"},
    {"keyctl", "0=11 1=1 3=100", "2:100w"},
    {"inotify_add_watch", "0=3 2=1", "1:4096r"},
    {"openat", "0=-100 2=0", "1:4096r"},
    {"newfstatat", "0=-100 3=0", "1:4096r 2:144w"},
    {"renameat", "0=-100 2=-100", "1:4096r 3:4096r"},
    {"linkat", "0=-100 2=-100 4=0", "1:4096r 3:4096r"},
    {"symlinkat", "1=-100", "0:4096r 2:4096r"},
    {"readlinkat", "0=-100 3=9", "1:4096r 2:9w"},
    {"pselect6", "0=1 5=0", "1:8w 2:8w 3:8w 4:16w"},
    {"ppoll", "1=2 4=8", "0:16w 2:16w 3:8r"},
    {"get_robust_list", "0=0", "1:8w 2:8w"},
    {"splice", "0=3 2=4 4=100 5=0", "1:8w 3:8w"},
    {"utimensat", "0=-100 3=0", "1:4096r 2:32r"},
    {"epoll_pwait", "0=3 2=1 3=0 5=8", "1:12w 4:8r"},
    {"signalfd4", "0=-1 2=8 3=0", "1:8r"},
    {"timerfd_settime", "0=3 1=0", "2:32r 3:32w"},
    {"timerfd_gettime", "0=3", "1:32w"},
    {"pipe2", "1=0", "0:8w"},
    {"prlimit64", "0=0 1=0", "2:16r 3:16w"},
    {"clock_adjtime", "0=0", "1:208w"},
    {"getcpu", "", "0:4w 1:4w"},
    {"sched_getattr", "0=0 2=56 3=0", "1:56w"},
    {"sched_setattr", "0=0 2=0", "1:4w 1:48w"},
    {"renameat2", "0=-100 2=-100 4=0", "1:4096r 3:4096r"},
    {"seccomp", "0=2 1=0", "2:4r"},
    {"getrandom", "1=300 2=0", "0:300w"},
    {"memfd_create", "1=0", "0:250r"},
    {"copy_file_range", "0=3 2=4 4=1 5=0", "1:8w 3:8w"},
    {"statx", "0=-100 2=0 3=0", "1:4096r 4:256w"},
    {"rseq", "1=32", "0:32w"},
    {"io_uring_setup", "0=8", "1:120w"},
    {"openat2", "0=-100 3=24", "1:4096r 2:24r"},
    {"epoll_pwait2", "0=3 2=2 5=8", "1:24w 3:16r 4:8r"},
    {"landlock_add_rule", "0=3 1=1", "2:12r"},
    {"cachestat", "0=3", "1:16r 2:40w"},
    {"file_getattr", "0=-100 3=24 4=0", "1:4096r 2:24w"},
    {"ioctl", "0=1 1=0x5401", "2:36w"},
    {"ioctl", "0=1 1=0x5413", "2:8w"},
    {"ioctl", "0=1 1=0x5421", "2:4r"},
    {"ioctl", "0=1 1=0x8915", "2:40w"},
    {"ioctl", "0=1 1=0x80045430", "2:4w"},
    {"ioctl", "0=1 1=0xc020660b", "2:4w 2:32w"},
    {"mmap", "", ""},
    {"close", "0=3", ""},
};

TEST(Enumerate, announces_what_each_call_touches) {
  for (const Case& wanted : kCases)
    EXPECT_EQ(touched(make(wanted)), wanted.touches) << wanted.name << " " << wanted.numbers;
  EXPECT_GE(std::size(kCases), 150U);
}

// No call of the table may crash or run away, whatever it is given.
TEST(Enumerate, takes_any_nonsense) {
  constexpr std::uint64_t kNonsense[] = {
      0, 1, 4095, UINT32_MAX, kUserEnd - 1, kUserEnd, 1ULL << 63, kMaxTransfer, UINT64_MAX, 0x70000fff, 1024, 1025};
  for (std::uint64_t number = 0; number < kEntries + 10; ++number)
    for (const auto first : kNonsense)
      for (const auto second : kNonsense)
        for (const bool readable : {false, true}) {
          RecordingVisitor visitor;
          visitor.readable = readable;
          visitor.fill = readable ? 0xFF : 0;
          enumerate({number, {first, second, first, second, first, second}}, visitor, 100);
          ASSERT_LE(visitor.ranges.size(), 100U);
          for (const Range& range : visitor.ranges) {
            ASSERT_LE(range.bytes, kMaxTransfer);
            ASSERT_LE(range.address + range.bytes, kUserEnd);
            ASSERT_NE(range.bytes, 0U);
          }
        }
}

TEST(Enumerate, takes_every_address_of_an_unknown_call_for_memory) {
  RecordingVisitor visitor;
  const auto result = enumerate({9999, {3, 0x12345000, 0, 0x7fff00000010, ~0ULL, 65535}}, visitor);
  EXPECT_FALSE(result.exact);
  ASSERT_EQ(visitor.ranges.size(), 2U);
  EXPECT_EQ(visitor.ranges[0].address, 0x12345000U);
  EXPECT_EQ(visitor.ranges[1].bytes, 4096U);
  EXPECT_TRUE(visitor.ranges[1].kernel_writes);
}

TEST(Enumerate, stops_when_the_visitor_refuses) {
  RecordingVisitor visitor;
  visitor.refuse_after = 1;
  const auto result = enumerate(make({"stat", "", ""}), visitor);
  EXPECT_EQ(result.end, Enumeration::End::refused);
  EXPECT_EQ(visitor.ranges.size(), 1U);
}

}  // namespace
}  // namespace comex::syscalls

#include "run/launch/orphan.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <vector>

#include "base/fd.h"

namespace comex {
namespace {

constexpr std::size_t kStack = std::size_t{64} << 10;  // of which next to nothing is touched

#ifdef __SANITIZE_THREAD__  // its clone() needs the caller's stack until the child is another program
constexpr int kNobodyWaits = CLONE_VFORK;
#else
constexpr int kNobodyWaits = 0;
#endif

// Seen by three processes that share their memory: that spares copies of page tables, most of what a fork costs.
//
// This one waits for the one between (CLONE_VFORK), which makes all ready, starts the last, and is over. Nobody waits
// until the last is another program: this process has its own program to become meanwhile. So what the last reads stays
// as it is for good, and it makes only calls that do not fail: errno is this process's.
struct Birth {
  std::string path;
  std::vector<char*> environment;
  int null = -1;
  int first = 0;
  std::vector<Fd> files;
  pid_t parent = getpid();
  std::array<std::unique_ptr<std::byte[]>, 2> stacks;
  Orphan orphan;
  int error = 0;
};

pid_t spawn(int (*begin)(void*), Birth& birth, std::size_t generation, int flags) {
  return clone(begin, birth.stacks[generation].get() + kStack, CLONE_VM | SIGCHLD | flags, &birth);
}

int become(void* of) {
  auto& birth = *static_cast<Birth*>(of);
  setpgid(0, 0);
  std::array<char*, 2> arguments{birth.path.data(), nullptr};
  execve(birth.path.c_str(), arguments.data(), birth.environment.data());
  _exit(127);
}

void hand_over(const Birth& birth) {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO}) dup2(birth.null, file);
  int to = birth.first;
  for (const Fd& file : birth.files) {
    if (file) {
      dup2(file.get(), to);
    } else {
      close(to);
    }
    ++to;
  }
  close_range(static_cast<unsigned>(to), ~0U, 0);
}

int come_between(void* of) {
  auto& birth = *static_cast<Birth*>(of);
  // Over when this process is.
  birth.orphan.can_trace = ptrace(PTRACE_SEIZE, birth.parent, nullptr, nullptr) == 0;
  for (const int each : {SIGPIPE, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU}) signal(each, SIG_IGN);
  hand_over(birth);
  birth.orphan.pid = spawn(&become, birth, 1, kNobodyWaits);
  if (birth.orphan.pid < 0) birth.error = errno;
  _exit(0);
}

}  // namespace

Expected<Orphan> start_orphan(const std::string& path, int first, std::span<const int> files) {
  if (access(path.c_str(), X_OK) != 0) return system_error(fmt::format("cannot run {}", path));
  static auto& births = *new std::list<Birth>;  // see there
  Birth& birth = births.emplace_back();
  birth.path = path;
  birth.first = first;
  for (char** each = environ; *each != nullptr; ++each) birth.environment.push_back(*each);
  birth.environment.push_back(nullptr);
  for (auto& stack : birth.stacks) stack = std::make_unique_for_overwrite<std::byte[]>(kStack);
  // Out of the way of the numbers that they get.
  const int beyond = first + static_cast<int>(files.size());
  for (const int file : files) birth.files.emplace_back(file >= 0 ? fcntl(file, F_DUPFD_CLOEXEC, beyond) : -1);
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const Fd moved_null(fcntl(null.get(), F_DUPFD_CLOEXEC, beyond));
  birth.null = moved_null.get();
  const pid_t between = spawn(&come_between, birth, 0, CLONE_VFORK);
  if (between < 0) return system_error("cannot start a process");
  while (waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  birth.files.clear();
  if (birth.error == 0) return birth.orphan;
  return Error{Errc::io, fmt::format("cannot run {}: {}", path, std::strerror(birth.error))};
}

}  // namespace comex

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
#include <vector>

#include "base/fd.h"

namespace comex {
namespace {

constexpr std::size_t kStack = std::size_t{64} << 10;

// Seen by three processes that share their memory: this one waits for the one between, that for the last, until it is
// another program (CLONE_VFORK). None of this copies page tables, which is most of what a fork costs.
struct Birth {
  const char* path;
  int null;
  int first;
  std::span<const Fd> files;
  pid_t parent;
  std::array<std::vector<std::byte>, 2> stacks;
  Orphan orphan;
  int error = 0;
};

pid_t spawn(int (*begin)(void*), Birth& birth, std::size_t generation) {
  std::vector<std::byte>& stack = birth.stacks[generation];
  return clone(begin, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
}

int become(void* of) {
  auto& birth = *static_cast<Birth*>(of);
  setpgid(0, 0);
  for (const int each : {SIGPIPE, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU}) signal(each, SIG_IGN);
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
  std::array<char*, 2> arguments{const_cast<char*>(birth.path), nullptr};
  execv(birth.path, arguments.data());
  birth.error = errno;
  _exit(1);
}

int come_between(void* of) {
  auto& birth = *static_cast<Birth*>(of);
  // Over when this process is.
  birth.orphan.can_trace = ptrace(PTRACE_SEIZE, birth.parent, nullptr, nullptr) == 0;
  birth.orphan.pid = spawn(&become, birth, 1);
  if (birth.orphan.pid < 0) birth.error = errno;
  _exit(0);
}

}  // namespace

Expected<Orphan> start_orphan(const std::string& path, int first, std::span<const int> files) {
  // Out of the way of the numbers that they get.
  const int beyond = first + static_cast<int>(files.size());
  std::vector<Fd> moved;
  for (const int file : files) moved.emplace_back(file >= 0 ? fcntl(file, F_DUPFD_CLOEXEC, beyond) : -1);
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const Fd moved_null(fcntl(null.get(), F_DUPFD_CLOEXEC, beyond));
  Birth birth{path.c_str(), moved_null.get(), first, moved, getpid(), {}, {}, 0};
  for (auto& stack : birth.stacks) stack.resize(kStack);
  const pid_t between = spawn(&come_between, birth, 0);
  if (between < 0) return system_error("cannot start a process");
  while (waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (birth.error == 0) return birth.orphan;
  return Error{Errc::io, fmt::format("cannot run {}: {}", path, std::strerror(birth.error))};
}

}  // namespace comex

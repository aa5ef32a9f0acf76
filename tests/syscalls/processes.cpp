// Processes and threads: starting, waiting for, and looking into them.
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <string>

#include "syscalls/suite.h"

using namespace suite;

namespace {

// argv and environment of a program that says what it was given, all of it in evicted memory.
struct Command {
  char* path = place_string("/proc/self/exe");
  char** arguments = place<char*>(5);
  char** environment = place<char*>(2);
  Command() {
    arguments[0] = place_string("syscall_suite");
    arguments[1] = place_string("--echo");
    std::string text(3000, 'x');
    arguments[2] = place_string(text.c_str());
    arguments[3] = place_string("last argument");
    environment[0] = place_string("SUITE=value of the environment");
  }
};

// Runs `start` in a child with its output in a pipe, and digests what comes.
template <typename Start>
void digest_output(Start&& start) {
  int ends[2];
  must(pipe(ends), "pipe");
  const pid_t child = start(ends[1]);
  close(ends[1]);
  std::string text;
  char some[512];
  for (ssize_t n; (n = read(ends[0], some, sizeof some)) > 0;) text.append(some, n);
  close(ends[0]);
  int* status = place<int>();
  EVICTED(waitpid(child, status, 0));
  result("%zu bytes, digest %08x, exit %d", text.size(), digest(text.data(), text.size()), WEXITSTATUS(*status));
}

pid_t child_that_exits(int code) {
  const pid_t child = static_cast<pid_t>(must(fork(), "fork"));
  if (child == 0) _exit(code);
  return child;
}

}  // namespace

CASE(execve_evicted) {
  Command command;
  digest_output([&](int output) {
    const pid_t child = static_cast<pid_t>(must(fork(), "fork"));
    if (child != 0) return child;
    dup2(output, STDOUT_FILENO);
    evict();
    execve(command.path, command.arguments, command.environment);
    _exit(99);
  });
}

CASE(execveat_evicted) {
  Command command;
  digest_output([&](int output) {
    const pid_t child = static_cast<pid_t>(must(fork(), "fork"));
    if (child != 0) return child;
    dup2(output, STDOUT_FILENO);
    evict();
    syscall(SYS_execveat, AT_FDCWD, command.path, command.arguments, command.environment, 0);
    _exit(99);
  });
}

CASE(posix_spawn_evicted) {
  Command command;
  digest_output([&](int output) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    pid_t* child = place<pid_t>();
    evict();
    check(posix_spawn(child, command.path, &actions, nullptr, command.arguments, command.environment) == 0, "spawn");
    posix_spawn_file_actions_destroy(&actions);
    return *child;
  });
}

CASE(vfork_evicted) {
  Command command;
  digest_output([&](int output) {
    evict();
    const pid_t child = vfork();
    if (child != 0) return child;
    dup2(output, STDOUT_FILENO);
    execve(command.path, command.arguments, command.environment);
    _exit(99);
  });
}

// The parent goes on when the child has become another program.
CASE(vfork_waits) {
  int order[2];
  must(pipe(order), "pipe");
  Command command;
  evict();
  const pid_t child = vfork();
  if (child == 0) {
    usleep(100'000);
    if (write(order[1], "child ", 6) != 6) _exit(98);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    execve(command.path, command.arguments, command.environment);
    _exit(99);
  }
  must(write(order[1], "parent", 6), "write");
  int status = 0;
  must(waitpid(child, &status, 0), "waitpid");
  char text[13] = {};
  must(read(order[0], text, 12), "read");
  result("%s, exit %d", text, WEXITSTATUS(status));
  close(order[0]), close(order[1]);
}

CASE(clone_with_evicted_stack) {
  constexpr std::size_t kStack = 65536;
  char* stack = static_cast<char*>(place_bytes(kStack, 16));
  const auto body = [](void* argument) -> int { return *static_cast<int*>(argument); };
  int *argument = place<int>(), *parent = place<int>(), *status = place<int>();
  *argument = 17;
  const long child = EVICTED(clone(body, stack + kStack, CLONE_VM | CLONE_PARENT_SETTID | SIGCHLD, argument, parent));
  EVICTED(syscall(SYS_wait4, child, status, 0, place<rusage>()));
  result("exit %d, the number is %s", WEXITSTATUS(*status), *parent == child ? "right" : "wrong");
}

namespace {

int spawn_and_end(void* argument) {
  const auto* const arguments = static_cast<char* const*>(argument);
  pid_t child = 0;
  int status = -1;
  if (posix_spawn(&child, arguments[0], nullptr, nullptr, arguments, environ) != 0) return 101;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 102;
}

int fork_and_handle(void*) {
  static volatile int handled;
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGUSR1, [](int) { handled = 1; });
    kill(getpid(), SIGUSR1);
    _exit(handled);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 102;
}

// Has handlers of its own, which the process has not.
std::atomic<int> handled_by_task, handled_by_process;

int handle_alone(void*) {
  std::signal(SIGUSR1, [](int) { ++handled_by_task; });
  std::signal(SIGUSR2, [](int) { handled_by_task += 10; });
  for (const int signal : {SIGUSR1, SIGUSR2, SIGUSR1}) syscall(SYS_kill, syscall(SYS_getpid), signal);
  return handled_by_task;
}

}  // namespace

CASE_APART(clone_that_handles_signals_by_itself) {
  constexpr std::size_t kStack = 128 << 10;
  char* const stack = place<char>(kStack);
  std::signal(SIGUSR1, [](int) { ++handled_by_process; });
  for (int turn = 0; turn < 2; ++turn) {
    const long child =
        EVICTED(clone(handle_alone, stack + kStack, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, nullptr));
    int status = 0;
    must(waitpid(static_cast<pid_t>(child), &status, 0), "waitpid");
    must(kill(getpid(), SIGUSR1), "kill");
    struct sigaction other {};
    must(sigaction(SIGUSR2, nullptr, &other), "sigaction");
    result("%x, %d, %s ", static_cast<unsigned>(status), handled_by_process.load(),
           other.sa_handler == SIG_DFL ? "default" : "?");
  }
}

namespace {

constexpr std::size_t kTaskStack = 128 << 10;
constexpr int kOwnActions = CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD;

// What tasks that share memory have come to, or are told.
std::atomic<int> stage, second_task;

void wait_for_stage(int wanted) {
  const timespec moment{0, 1'000'000};
  while (stage != wanted) syscall(SYS_nanosleep, &moment, nullptr);
}

int handle_when_told(void*) {
  second_task = static_cast<int>(syscall(SYS_gettid));
  stage = 1;
  wait_for_stage(3);
  syscall(SYS_kill, syscall(SYS_getpid), SIGUSR1);
  return handled_by_task;
}

int share_actions_and_end(void* stack) {
  std::signal(SIGUSR1, [](int) { ++handled_by_task; });
  clone(handle_when_told, static_cast<char*>(stack) + kTaskStack, kOwnActions | CLONE_SIGHAND | CLONE_PARENT, nullptr);
  wait_for_stage(1);
  return 0;
}

int take_default(void*) {
  std::signal(SIGUSR1, SIG_DFL);
  stage = 2;
  wait_for_stage(4);
  return 0;
}

int ignore_and_execute(void*) {
  std::signal(SIGBUS, SIG_DFL);
  std::signal(SIGSYS, SIG_IGN);
  const char* const arguments[] = {program(), "--ignored", nullptr};
  execv(program(), const_cast<char* const*>(arguments));
  return 99;
}

int status_of(long task) {
  int status = 0;
  must(waitpid(static_cast<pid_t>(task), &status, 0), "waitpid");
  return status;
}

}  // namespace

// Who has shared its handlers ends before the other, and a third begins.
CASE_APART(clones_that_share_handlers) {
  char* const stacks = place<char>(3 * kTaskStack);
  result("%x ", status_of(clone(share_actions_and_end, stacks + kTaskStack, kOwnActions, stacks + kTaskStack)));
  const long third = clone(take_default, stacks + 3 * kTaskStack, kOwnActions, nullptr);
  wait_for_stage(2);
  stage = 3;
  result("%x ", status_of(second_task));
  stage = 4;
  result("%x", status_of(third));
}

CASE_APART(clone_that_ignores_signals_and_executes) {
  std::signal(SIGBUS, SIG_IGN);
  char* const stack = place<char>(kTaskStack);
  result("%x",
         status_of(EVICTED(clone(ignore_and_execute, stack + kTaskStack, CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr))));
}

// Tasks of their own that share the memory, and have children.
CASE_APART(clone_that_makes_others) {
  constexpr std::size_t kStack = 128 << 10;
  char* const stack = place<char>(kStack);
  const char* const arguments[] = {"/bin/sh", "-c", "exit 9", nullptr};
  const struct {
    int (*body)(void*);
    int flags;
  } tasks[] = {{spawn_and_end, CLONE_VM | CLONE_FILES | CLONE_FS | SIGCHLD},
               {spawn_and_end, CLONE_VM | SIGCHLD},
               {fork_and_handle, CLONE_VM | SIGCHLD}};
  for (const auto& task : tasks) {
    const long child = EVICTED(clone(task.body, stack + kStack, task.flags, const_cast<char**>(arguments)));
    int status = 0;
    must(waitpid(static_cast<pid_t>(child), &status, 0), "waitpid");
    result("%x ", static_cast<unsigned>(status));
  }
}

CASE(wait_family) {
  int* status = place<int>();
  auto* use = place<rusage>();
  EVICTED(syscall(SYS_wait4, child_that_exits(5), status, 0, use));
  auto* information = place<siginfo_t>();
  EVICTED(syscall(SYS_waitid, P_PID, child_that_exits(6), information, WEXITED, use));
  result("%d and %d", WEXITSTATUS(*status), information->si_status);
}

CASE(wait_while_blocked) {
  const pid_t child = static_cast<pid_t>(must(fork(), "fork"));
  if (child == 0) {
    evict();
    usleep(20000);
    _exit(8);
  }
  int* status = place<int>();
  EVICTED(syscall(SYS_wait4, child, status, 0, nullptr));
  result("exit %d", WEXITSTATUS(*status));
}

// Through the calls for other processes' memory, with this one as the other.
CASE(memory_by_process_number) {
  char *there = place<char>(9000), *here = place<char>(9000);
  fill(there, 9000, 41);
  const auto sum = digest(there, 9000);
  auto *local = place<iovec>(), *remote = place<iovec>();
  *local = {here, 9000};
  *remote = {there, 9000};
  const long n = EVICTED_OR_SKIP(process_vm_readv(getpid(), local, 1, remote, 1, 0));
  check(digest(here, 9000) == sum, "other data came");
  fill(here, 9000, 42);
  const long written = EVICTED(process_vm_writev(getpid(), local, 1, remote, 1, 0));
  check(digest(there, 9000) == digest(here, 9000), "other data arrived");
  result("%ld read, %ld written", n, written);
}

CASE(ptrace_registers) {
  const pid_t child = static_cast<pid_t>(must(fork(), "fork"));
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == -1) _exit(10);  // somebody else traces the suite
    raise(SIGSTOP);
    _exit(9);
  }
  int* status = place<int>();
  EVICTED(waitpid(child, status, 0));
  if (WIFEXITED(*status)) throw Skipped{"traced already"};
  auto* registers = place<user_regs_struct>();
  auto* information = place<siginfo_t>();
  EVICTED_OR_SKIP(ptrace(PTRACE_GETREGS, child, nullptr, registers));
  EVICTED(ptrace(PTRACE_GETSIGINFO, child, nullptr, information));
  ptrace(PTRACE_CONT, child, nullptr, nullptr);
  EVICTED(waitpid(child, status, 0));
  check(registers->rip != 0, "no registers");
  result("stopped by %d, exit %d", information->si_signo, WEXITSTATUS(*status));
}

CASE(thread_name) {
  char *before = place<char>(16), *name = place_string("across pages"), *back = place<char>(16);
  EVICTED(prctl(PR_GET_NAME, before));
  EVICTED(prctl(PR_SET_NAME, name));
  EVICTED(prctl(PR_GET_NAME, back));
  EVICTED(prctl(PR_SET_NAME, before));
  int* signal = place<int>();
  EVICTED(prctl(PR_GET_PDEATHSIG, signal));
  result("%s, %d", back, *signal);
}

// Some programs keep most of their heap from their children.
CASE(memory_that_a_child_does_not_get) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  const auto make = [] {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED, "mmap");
    fill(memory, kBytes, 78);
    return static_cast<char*>(memory);
  };
  char *all = make(), *part = make();
  must(madvise(all, kBytes, MADV_DONTFORK), "madvise");
  must(madvise(part + kBytes / 4, kBytes / 4, MADV_DONTFORK), "madvise");
  const auto first = digest(part, kBytes / 4), last = digest(part + kBytes / 2, kBytes / 2);
  const auto right = [&] {
    evict();
    return digest(part, kBytes / 4) == first && digest(part + kBytes / 2, kBytes / 2) == last;
  };
  const pid_t child = static_cast<pid_t>(must(fork(), "fork"));
  if (child == 0) _exit(right() ? 7 : 1);
  int status = 0;
  must(waitpid(child, &status, 0), "waitpid");
  result("exit %d, %s", WEXITSTATUS(status),
         right() && digest(all, kBytes) == digest(part, kBytes) ? "right" : "wrong");
  munmap(all, kBytes), munmap(part, kBytes);
}

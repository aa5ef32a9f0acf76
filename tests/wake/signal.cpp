// A program that does something of its own about SIGSYS, by system calls that libc does not see, and then uses so much
// memory that comex has to take the process over, which it does by that signal. The program must not notice, and what
// it has set must hold afterwards. Prints one line per thing that is wrong, and a last one.
//
//   wake_signal MEBIBYTES handler|ignored|default MOST
//
// MOST: of the memory that may be in RAM in the end, in MiB.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "wake/resident.h"

namespace {

int wrong = 0;

void expect(bool right, const char* what) {
  if (right) return;
  ++wrong;
  std::printf("wrong: %s\n", what);
}

// As the kernel has it.
struct Action {
  void* handler = nullptr;
  std::uint64_t flags = 0;
  void* restorer = nullptr;
  std::uint64_t mask = 0;
};

Action action_now() {
  Action action;
  expect(syscall(SYS_rt_sigaction, SIGSYS, nullptr, &action, sizeof action.mask) == 0, "to ask for the action");
  return action;
}

volatile sig_atomic_t came = 0;
volatile sig_atomic_t last_value = 0;

void on_signal(int, siginfo_t* info, void*) {
  came = came + 1;
  last_value = info->si_code == SI_QUEUE ? info->si_value.sival_int : 0;
}

void set_action(void* handler) {
  // libc knows what a handler has to return to.
  struct sigaction model {};
  model.sa_sigaction = &on_signal;
  model.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &model, nullptr);
  Action action = action_now();
  action.handler = handler;
  expect(syscall(SYS_rt_sigaction, SIGSYS, &action, nullptr, sizeof action.mask) == 0, "to set the action");
}

// One signal to this thread, and one to the process.
void send_both() {
  syscall(SYS_tgkill, getpid(), gettid(), SIGSYS);
  sigval value{};
  value.sival_int = 7;
  sigqueue(getpid(), SIGSYS, value);
}

void expect_handled(const char* when) {
  const int before = came;
  send_both();
  expect(came == before + 2 && last_value == 7, when);
}

// A child that is sent the signal ends.
void expect_fatal() {
  const pid_t child = fork();
  if (child == 0) {
    send_both();
    _exit(0);
  }
  int status = 0;
  expect(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "the default");
}

void expect_memory(std::size_t bytes, std::size_t most) {
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
  std::vector<std::uint64_t> memory(bytes / sizeof(std::uint64_t));
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = i * kFactor;
  std::size_t bad = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) bad += memory[i] != i * kFactor;
  expect(bad == 0, "memory");
  expect(is_within(most), "the budget");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const std::string_view what = arguments[2];
  void* const handler = what == "handler"   ? reinterpret_cast<void*>(&on_signal)
                        : what == "ignored" ? reinterpret_cast<void*>(SIG_IGN)
                                            : reinterpret_cast<void*>(SIG_DFL);
  set_action(handler);
  if (what == "handler") expect_handled("a signal before");

  int ends[2] = {-1, -1};
  expect(pipe(ends) == 0, "pipe");
  std::thread reader([&] {
    char byte = 0;
    expect(read(ends[0], &byte, 1) == 1, "read");
  });
  expect_memory(std::strtoull(arguments[1], nullptr, 10) << 20, std::strtoull(arguments[3], nullptr, 10) << 20);
  expect(write(ends[1], "x", 1) == 1, "write");
  reader.join();

  expect(action_now().handler == handler, "the action afterwards");
  if (what == "handler") expect_handled("a signal afterwards");
  if (what == "ignored") send_both();
  if (what == "default") expect_fatal();
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}

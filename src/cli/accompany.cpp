#include "cli/accompany.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/clock.h"
#include "base/wait_ready.h"
#include "cli/report.h"

namespace comex {
namespace {

constexpr Millis kPatience{2'000};  // children of the program may live on for ever

volatile pid_t accompanied = 0;

// Those of the terminal reach the program by themselves.
void forward(int signal, siginfo_t* info, void*) {
  const int error = errno;
  if (info->si_code <= 0) kill(accompanied, signal);
  errno = error;
}

void take_signals() {
  struct sigaction action {};
  action.sa_sigaction = &forward;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM}) sigaction(number, &action, nullptr);
}

int wait_for(pid_t child) {
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WUNTRACED) < 0) {
      if (errno == EINTR) continue;
      return W_EXITCODE(kExitFailed, 0);
    }
    if (!WIFSTOPPED(status)) return status;
    raise(SIGSTOP);
    kill(child, SIGCONT);
  }
}

int end_as(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  const int number = WTERMSIG(status);
  const rlimit none{0, 0};  // there is a core file already, if there is to be one
  setrlimit(RLIMIT_CORE, &none);
  signal(number, SIG_DFL);
  raise(number);
  return 128 + number;
}

}  // namespace

int accompany(const std::function<int(Fd done)>& become) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail(system_error("cannot make a pipe"));
  const Fd over(ends[0]);
  Fd done(ends[1]);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return fail(system_error("cannot start a process"));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kExitFailed);
    _exit(become(std::move(done)));
  }
  accompanied = child;
  take_signals();
  done.reset();
  const int status = wait_for(child);
  (void)wait_ready(over.get(), POLLIN, Deadline(kPatience));
  return end_as(status);
}

}  // namespace comex

#include "bench/paging/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#include <array>
#include <thread>

#include "bench/child.h"
#include "bench/interrupt.h"

namespace comex::bench {

namespace {

constexpr Millis kLookEvery{100};     // for Ctrl-C
constexpr Millis kLookAfterEvery{5};  // where there is something to look after
constexpr std::size_t kMostOutput = 1 << 20;

Expected<std::string> read_all(int fd, const ProgramRun& run, const Deadline& deadline) {
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    if (interrupted()) return interruption();
    if (deadline.passed()) return Error{Errc::timeout, "it did not finish in time"};
    if (run.look_after) run.look_after();
    pollfd ready{fd, POLLIN, 0};
    const Millis patience = run.look_after ? kLookAfterEvery : kLookEvery;
    if (::poll(&ready, 1, static_cast<int>(patience.count())) <= 0) continue;
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("cannot read what it prints");
    if (got == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > kMostOutput) return Error{Errc::io, "it prints without end"};
  }
}

// Why it ended, as a clause; the log may know more.
std::string describe_end(int status, const std::string& log) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotExecute) return "it cannot be started";
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotJoinCgroup) return "it cannot join its control group";
  std::string text = WIFSIGNALED(status) ? fmt::format("it was ended by signal {}{}", WTERMSIG(status),
                                                       WTERMSIG(status) == SIGKILL ? " (out of memory?)" : "")
                                         : fmt::format("it ended with {}", WEXITSTATUS(status));
  const std::string last = last_line(log);
  return last.empty() ? text : fmt::format("{}: {}", text, last);
}

}  // namespace

Expected<ProgramResult> measure_program(const std::vector<std::string>& command, const ProgramRun& run) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("cannot make a pipe");
  const Fd output(ends[0]);
  Fd input(ends[1]);
  const Deadline deadline(run.limit);
  const auto begin = Clock::now();
  Expected<Child> child = Child::spawn(command, run.log, input.get(), run.cgroup);
  if (!child) return child.error();
  input.reset();  // or the end of the program would not be seen
  Expected<std::string> text = read_all(output.get(), run, deadline);
  if (!text) return text.error();
  while (child->running()) {
    if (interrupted()) return interruption();
    if (deadline.passed()) return Error{Errc::timeout, "it did not finish in time"};
    std::this_thread::sleep_for(Millis(1));
  }
  if (child->wait_status() != 0) return Error{Errc::io, describe_end(child->wait_status(), run.log)};
  return ProgramResult{*std::move(text), std::chrono::duration<double>(Clock::now() - begin).count(),
                       child->peak_bytes()};
}

Expected<std::string> run_program(const std::vector<std::string>& command, const ProgramRun& run) {
  Expected<ProgramResult> result = measure_program(command, run);
  if (!result) return result.error();
  return std::move(result->output);
}

}  // namespace comex::bench

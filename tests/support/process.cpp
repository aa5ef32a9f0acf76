#include "support/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "fabric/socket.h"

extern char** environ;

namespace comex::test {
namespace {

std::vector<std::string> clean_environment(const std::string& home) {
  std::vector<std::string> variables;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view variable(*at);
    if (variable.starts_with("COMEX_") || variable.starts_with("HOME=") || variable.starts_with("XDG_")) continue;
    variables.emplace_back(variable);
  }
  variables.push_back("HOME=" + home);
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (auto& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

// From /proc/PID/task/*/stat: every thread is stopped (T).
bool all_threads_stopped(pid_t pid) {
  std::error_code failure;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", failure)) {
    std::ifstream file(task.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    const auto name_ends = stat.rfind(')');
    if (name_ends == std::string::npos || stat.size() < name_ends + 3 || stat[name_ends + 2] != 'T') return false;
  }
  return !failure;
}

std::optional<Url> url_in(const std::string& line, const std::string& scheme) {
  const auto begin = line.find(scheme + "://");
  if (begin == std::string::npos) return std::nullopt;
  const auto url = parse_url(line.substr(begin, line.find(' ', begin) - begin));
  if (!url) return std::nullopt;
  return *url;
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const std::string& home) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) throw std::runtime_error("socketpair");
  talk_ = Fd(pair[0]);
  const Fd theirs(pair[1]);
  errors_ = Fd(memfd_create("stderr", MFD_CLOEXEC));
  auto words = arguments;
  auto variables = clean_environment(home);
  const auto argv = pointers(words);
  const auto envp = pointers(variables);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ != 0) return;
  // Only what may be called after fork in a process with threads.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  dup2(theirs.get(), STDIN_FILENO);
  dup2(theirs.get(), STDOUT_FILENO);
  dup2(errors_.get(), STDERR_FILENO);
  execve(argv[0], argv.data(), envp.data());
  _exit(127);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      ended_(other.ended_),
      talk_(std::move(other.talk_)),
      errors_(std::move(other.errors_)),
      heard_(std::move(other.heard_)) {}

Process::~Process() {
  kill();
}

void Process::signal(int number) const {
  if (pid_ > 0 && !ended_) ::kill(pid_, number);
}

bool Process::stop() {
  signal(SIGSTOP);
  return wait_until([&] { return all_threads_stopped(pid_); });
}

void Process::go_on() const {
  signal(SIGCONT);
}

std::optional<int> Process::wait(Millis cap) {
  if (pid_ <= 0) return std::nullopt;
  (void)wait_until(
      [&] {
        int status = 0;
        if (!ended_ && waitpid(pid_, &status, WNOHANG) == pid_) {
          ended_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        return ended_.has_value();
      },
      cap);
  return ended_;
}

void Process::kill() {
  if (pid_ <= 0 || ended_) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  ended_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool Process::receive(const Deadline& deadline) {
  if (!wait_ready(talk_.get(), POLLIN, deadline)) return false;
  std::array<char, 4096> piece;
  const ssize_t got = recv(talk_.get(), piece.data(), piece.size(), 0);
  if (got <= 0) return false;
  heard_.append(piece.data(), static_cast<std::size_t>(got));
  return true;
}

std::optional<std::string> Process::read_line(Millis cap) {
  const Deadline deadline(cap);
  for (;;) {
    if (const auto end = heard_.find('\n'); end != std::string::npos) {
      std::string line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    if (!receive(deadline)) return std::nullopt;
  }
}

std::string Process::read_all(Millis cap) {
  const Deadline deadline(cap);
  while (receive(deadline)) {
  }
  return std::exchange(heard_, {});
}

bool Process::write_line(const std::string& line) {
  const std::string text = line + "\n";
  return ::send(talk_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

std::string Process::ask(const std::string& line, Millis cap) {
  if (!write_line(line)) return "";
  return read_line(cap).value_or("");
}

std::string Process::errors() const {
  std::string text;
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t got = pread(errors_.get(), piece.data(), piece.size(), static_cast<off_t>(text.size()));
    if (got <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

std::vector<std::string> Outcome::complaints() const {
  std::vector<std::string> lines;
  std::istringstream stream(errors);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("comex: ")) lines.push_back(line);
  }
  return lines;
}

Outcome run_comex(std::vector<std::string> arguments, const std::string& home, Millis cap) {
  arguments.insert(arguments.begin(), COMEX_BINARY);
  Process process(arguments, home);
  Outcome outcome;
  outcome.output = process.read_all(cap);
  outcome.code = process.wait(cap);
  outcome.errors = process.errors();
  return outcome;
}

NodeProcess start_node(std::vector<std::string> arguments, const std::string& home, const std::string& memory) {
  const std::vector<std::string> modest{COMEX_BINARY, "serve", "--memory", memory, "--no-lock", "--no-huge-pages"};
  arguments.insert(arguments.begin(), modest.begin(), modest.end());
  NodeProcess node{Process(arguments, home), {}, {}, {}, {}};
  const auto line = node.process.read_line();
  if (!line) {
    ADD_FAILURE() << "the node does not get ready: " << node.process.errors();
    throw std::runtime_error("no ready line");
  }
  node.ready = *line;
  node.tcp = url_in(*line, "tcp");
  if (!node.tcp) node.tcp = url_in(*line, "tls");
  node.shm = url_in(*line, "unix");
  node.rdma = url_in(*line, "rdma");
  return node;
}

}  // namespace comex::test

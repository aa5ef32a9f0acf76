#include "bench/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "fabric/socket.h"

namespace comex::bench {

namespace {

constexpr Millis kGrace{2000};

// In the child, before anything else. Async-signal-safe.
void tie_to_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  ::setpgid(0, 0);
}

// It and what it has started. It may not have got to having a group yet.
void end_group(pid_t pid, int signal) {
  if (::kill(-pid, signal) != 0) ::kill(pid, signal);
}

}  // namespace

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), wait_status_(other.wait_status_), peak_bytes_(other.peak_bytes_) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    stop();
    pid_ = std::exchange(other.pid_, -1);
    wait_status_ = other.wait_status_;
    peak_bytes_ = other.peak_bytes_;
  }
  return *this;
}

Expected<Child> Child::spawn(const std::vector<std::string>& arguments, const std::string& log, int out, int cgroup,
                             int in) {
  // Everything that allocates happens before the fork: another thread may hold malloc's locks.
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  // What the user configured for comex is not meant for the nodes we start.
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("COMEX_")) environment.push_back(*variable);
  }
  environment.push_back(nullptr);
  const Fd log_fd(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log_fd) return system_error("cannot create " + log);
  const Fd null_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null_fd) return system_error("cannot open /dev/null");

  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("cannot start " + arguments[0]);
  if (pid == 0) {
    tie_to_parent(parent);
    if (cgroup >= 0 && ::write(cgroup, "0", 1) != 1) ::_exit(kCannotJoinCgroup);  // "0" is whoever writes it
    ::dup2(in >= 0 ? in : null_fd.get(), STDIN_FILENO);
    ::dup2(out >= 0 ? out : log_fd.get(), STDOUT_FILENO);
    ::dup2(log_fd.get(), STDERR_FILENO);
    ::execvpe(argv[0], argv.data(), environment.data());
    ::_exit(kCannotExecute);
  }
  return Child(pid);
}

Expected<Child> Child::fork(const std::function<int()>& body) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("cannot fork");
  if (pid == 0) {
    tie_to_parent(parent);
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
    ::signal(SIGHUP, SIG_DFL);
    ::_exit(body());
  }
  return Child(pid);
}

bool Child::running() {
  if (pid_ < 0) return false;
  rusage usage{};
  if (::wait4(pid_, &wait_status_, WNOHANG, &usage) == 0) return true;
  peak_bytes_ = static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
  pid_ = -1;
  return false;
}

void Child::stop() {
  if (!running()) return;
  end_group(pid_, SIGTERM);
  const Deadline grace(kGrace);
  while (running()) {
    if (grace.passed()) {
      end_group(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
      return;
    }
    std::this_thread::sleep_for(Millis(5));
  }
}

bool program_exists(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/" + name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::string last_line(const std::string& log) {
  std::ifstream file(log);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

Expected<std::uint16_t> free_port() {
  const Expected<TcpListener> listener = listen_tcp("127.0.0.1:0");
  if (!listener) return listener.error();
  return listener->port;
}

Expected<TempFolder> TempFolder::create() {
  const char* base = std::getenv("TMPDIR");
  std::string path = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/comex-bench-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return system_error("cannot create a temporary folder " + path);
  return TempFolder(path);
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace comex::bench

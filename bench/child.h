// Programs we start to measure against, and the folder they work in. Both go when their owner goes: on success, on an
// error, on Ctrl-C (see interrupt.h). Not thread-safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/expected.h"
#include "base/fd.h"

namespace comex::bench {

// How a program ends that did not get to begin, as a shell would say.
inline constexpr int kCannotExecute = 127;
inline constexpr int kCannotJoinCgroup = 126;

// A process that ends with us: asked to when this object goes, killed by the kernel should we be killed.
// It has a process group of its own, so that Ctrl-C reaches us alone and we end it in order.
// REQUIRES: started by the main thread (the kernel ties it to the thread that forked).
class Child {
 public:
  Child() = default;
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child() { stop(); }

  // Runs arguments[0], looked for in PATH. Its output goes to `log` (created); `out` takes its standard output instead
  // where given. `cgroup`, where given, is the open cgroup.procs of the control group that it joins before the program
  // starts. Its input is `in`, or empty.
  static Expected<Child> spawn(const std::vector<std::string>& arguments, const std::string& log, int out = -1,
                               int cgroup = -1, int in = -1);
  // Runs `body` in a forked child, which ends with what it returns.
  // REQUIRES: this process has one thread.
  static Expected<Child> fork(const std::function<int()>& body);

  [[nodiscard]] pid_t pid() const { return pid_; }
  // False once the program has ended; then it is reaped.
  bool running();
  // How it ended, as waitpid tells. REQUIRES: running() has said false.
  [[nodiscard]] int wait_status() const { return wait_status_; }
  // The most memory that it, or the largest process that it waited for, had at a time. REQUIRES: as above.
  [[nodiscard]] std::uint64_t peak_bytes() const { return peak_bytes_; }
  // Asks it, and what it has started, to end, and after a grace of two seconds kills it. Returns when it is gone.
  void stop();

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
  int wait_status_ = 0;
  std::uint64_t peak_bytes_ = 0;
};

// Is there such a program in PATH?
bool program_exists(const std::string& name);

// The last line a program wrote to its log, to show why it ended; empty when there is none.
std::string last_line(const std::string& log);

// A TCP port on the loopback address that nobody listened on a moment ago. Somebody may by the time it is used.
Expected<std::uint16_t> free_port();

class TempFolder {
 public:
  static Expected<TempFolder> create();
  TempFolder(TempFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TempFolder& operator=(TempFolder&&) = delete;
  ~TempFolder();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TempFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace comex::bench

// Programs a test starts: the comex command, and clients that can be stopped and killed.
//
// A process goes when its object goes, and is killed by the kernel should the test itself be killed.
// REQUIRES: started by the main thread (the kernel ties the two together by the thread that forked).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "fabric/url.h"
#include "support/wait.h"

namespace comex::test {

class Process {
 public:
  // Runs arguments[0]. Its input and output are ours to write and read by lines. Environment: none of this machine's
  // configuration; COMEX_* variables are removed and the home folder is `home`.
  Process(const std::vector<std::string>& arguments, const std::string& home);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Until every thread of it has stopped.
  [[nodiscard]] bool stop();
  void go_on() const;
  // How it ended: its exit code, or 128 and the signal that ended it. Nothing if it still runs after `cap`.
  std::optional<int> wait(Millis cap = kPatience);
  // kill -9, and wait.
  void kill();

  // The next line of its output, without the newline; nothing if it ended, or is silent for `cap`.
  std::optional<std::string> read_line(Millis cap = kPatience);
  // All of its output until it ends.
  std::string read_all(Millis cap = kPatience);
  bool write_line(const std::string& line);
  // One line in, one line out; "" if none comes.
  std::string ask(const std::string& line, Millis cap = kPatience);
  // All it wrote to stderr so far.
  [[nodiscard]] std::string errors() const;

 private:
  bool receive(const Deadline& deadline);

  pid_t pid_ = -1;
  std::optional<int> ended_;
  Fd talk_;    // a socket: its stdin and stdout
  Fd errors_;  // a file in memory: its stderr
  std::string heard_;
};

// What the program said and how it ended.
struct Outcome {
  std::optional<int> code;
  std::string output;
  std::string errors;
  // Lines of `errors` that speak to the user, not to a log.
  [[nodiscard]] std::vector<std::string> complaints() const;
};
// Runs the comex command to its end.
Outcome run_comex(std::vector<std::string> arguments, const std::string& home, Millis cap = kPatience);

// `comex serve` in a process of its own.
struct NodeProcess {
  Process process;
  std::string ready;  // the line it prints when it serves
  std::optional<Url> tcp;
  std::optional<Url> shm;
  std::optional<Url> rdma;
};
// Adds --memory, no locking and no huge pages to `arguments`. Fails the test, and throws, if it does not get ready.
NodeProcess start_node(std::vector<std::string> arguments, const std::string& home, const std::string& memory = "16M");

}  // namespace comex::test

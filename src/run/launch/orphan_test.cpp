#include "run/launch/orphan.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/fd.h"

namespace comex {
namespace {

// A program that is a script, for as long as the test lasts.
class Script {
 public:
  explicit Script(const std::string& text) {
    const int fd = mkstemp(path_.data());
    close(fd);
    std::ofstream(path_) << "#!/bin/sh\n" << text << "\n";
    chmod(path_.c_str(), 0700);
  }
  ~Script() { unlink(path_.c_str()); }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "/orphan.XXXXXX";
};

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    from = Fd(ends[0]);
    to = Fd(ends[1]);
  }
  // Until nobody has the other end.
  std::string all() {
    to.reset();
    std::string text;
    std::array<char, 512> part{};
    for (ssize_t got = 0; (got = read(from.get(), part.data(), part.size())) > 0;) {
      text.append(part.data(), static_cast<std::size_t>(got));
    }
    return text;
  }
  Fd from;
  Fd to;
};

TEST(Orphan, has_the_descriptors_it_is_given_and_no_others) {
  Pipe pipe;
  const Fd open_to_all(::open("/dev/null", O_RDONLY));  // would be inherited
  ASSERT_GE(fcntl(open_to_all.get(), F_DUPFD, 100), 0);
  const Script script("exec >&3; for fd in 3 4 5 6 7 100; do [ -e /proc/$$/fd/$fd ] && echo $fd; done; true");
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto orphan = start_orphan(script.path(), 3, std::array{pipe.to.get(), -1, null.get()});
  ASSERT_TRUE(orphan) << orphan.error().message;
  EXPECT_EQ(pipe.all(), "3\n5\n");
  close_range(100, 100, 0);
}

TEST(Orphan, does_not_hold_our_input_and_output_open) {
  Pipe pipe;
  const Script script("files=$(readlink /proc/$$/fd/0 /proc/$$/fd/1); echo \"$files\" >&3");
  const auto orphan = start_orphan(script.path(), 3, std::array{pipe.to.get()});
  ASSERT_TRUE(orphan) << orphan.error().message;
  EXPECT_EQ(pipe.all(), "/dev/null\n/dev/null\n");
}

TEST(Orphan, is_nobodys_child_and_no_part_of_the_job) {
  Pipe pipe;
  const Script script("exec >&3; echo $$ $(ps -o ppid=,pgid= -p $$); kill -INT $$; kill -HUP $$; echo lives");
  const auto orphan = start_orphan(script.path(), 3, std::array{pipe.to.get()});
  ASSERT_TRUE(orphan) << orphan.error().message;
  int status = 0;
  EXPECT_EQ(waitpid(-1, &status, 0), -1);
  EXPECT_EQ(errno, ECHILD);
  long self = 0;
  long parent = 0;
  long group = 0;
  std::array<char, 16> last{};
  const std::string said = pipe.all();
  ASSERT_EQ(std::sscanf(said.c_str(), "%ld %ld %ld %15s", &self, &parent, &group, last.data()), 4) << said;
  EXPECT_EQ(self, orphan->pid);
  EXPECT_NE(parent, getpid());
  EXPECT_EQ(group, self);
  EXPECT_STREQ(last.data(), "lives");
}

TEST(Orphan, a_program_that_cannot_be_run_is_an_error) {
  const auto orphan = start_orphan("/nonexistent/keeper", 3, {});
  ASSERT_FALSE(orphan);
  EXPECT_NE(orphan.error().message.find("/nonexistent/keeper"), std::string::npos) << orphan.error().message;
  EXPECT_EQ(waitpid(-1, nullptr, 0), -1) << "nothing is left behind";
}

}  // namespace
}  // namespace comex

#include "run/lifeline.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <thread>

#include "base/clock.h"

namespace comex {
namespace {

bool let_go_soon(const Lifeline& line) {
  const Deadline deadline(std::chrono::seconds(20));
  while (line.held() && !deadline.passed()) std::this_thread::sleep_for(Millis(1));
  return !line.held();
}

// A child that has the lifeline mapped and no descriptor of it, and says so.
class Child {
 public:
  template <typename Then>
  Child(Lifeline& line, Then&& then) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    Fd end = line.take_end();
    pid_ = ::fork();
    if (pid_ == 0) {
      if (grasp_lifeline(end.get()) == nullptr) ::_exit(1);
      end.reset();
      (void)!::write(ends[1], "x", 1);
      then();
      ::_exit(0);
    }
    ::close(ends[1]);
    char c = 0;
    EXPECT_EQ(::read(ends[0], &c, 1), 1);
    ::close(ends[0]);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void kill() const { ::kill(pid_, SIGKILL); }

 private:
  pid_t pid_ = -1;
};

void sleep_for_ever() {
  for (;;) ::pause();
}

TEST(LifelineTest, held_asLongAsTheProcessLives) {
  auto line = Lifeline::make().value();
  EXPECT_TRUE(line.held());
  const Child child(line, sleep_for_ever);
  EXPECT_TRUE(line.held());
  child.kill();
  EXPECT_TRUE(let_go_soon(line));
}

TEST(LifelineTest, held_endsWithExec) {
  auto line = Lifeline::make().value();
  const Child child(line, [] { ::execl("/bin/sleep", "sleep", "1000", nullptr); });
  EXPECT_TRUE(let_go_soon(line));
}

TEST(LifelineTest, held_notByAForkedChild) {
  auto line = Lifeline::make().value();
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Child child(line, [&] {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ::alarm(60);
      sleep_for_ever();
    }
    (void)!::write(ends[1], &grandchild, sizeof grandchild);
  });
  EXPECT_TRUE(let_go_soon(line));
  pid_t grandchild = -1;
  ASSERT_EQ(::read(ends[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  ASSERT_GT(grandchild, 0);
  EXPECT_EQ(::kill(grandchild, SIGKILL), 0) << "it was still there";
  for (const int end : ends) ::close(end);
}

int wait_for_a_byte(void* end) {
  const int fd = *static_cast<int*>(end);
  char c = 0;
  (void)!::write(fd, "x", 1);
  (void)!::read(fd, &c, 1);
  ::_exit(0);
}

// A vfork child runs in the memory of its parent, and goes on when that is killed. By clone(), because the thread
// sanitizer makes a fork of every vfork.
TEST(LifelineTest, held_byAVforkChild) {
  auto line = Lifeline::make().value();
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  alignas(16) static std::array<std::byte, 256 * 1024> stack;
  const Child child(line, [&] {
    (void)::clone(wait_for_a_byte, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, &ends[1]);
  });
  char c = 0;
  ASSERT_EQ(::read(ends[0], &c, 1), 1);
  child.kill();
  std::this_thread::sleep_for(Millis(50));
  EXPECT_TRUE(line.held());
  ASSERT_EQ(::write(ends[0], "x", 1), 1);
  EXPECT_TRUE(let_go_soon(line));
}

TEST(LifelineTest, held_untilTheDescriptorInFlightIsGone) {
  auto line = Lifeline::make().value();
  Fd end = line.take_end();
  EXPECT_TRUE(line.held());
  end.reset();
  EXPECT_FALSE(line.held());
}

}  // namespace
}  // namespace comex

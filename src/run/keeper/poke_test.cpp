#include "run/keeper/poke.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "run/poke_desk.h"
#include "run/poke_value.h"

namespace comex {
namespace {

bool can_poke(pid_t process) {
  if (ptrace(PTRACE_SEIZE, process, nullptr, nullptr) != 0) return false;
  ptrace(PTRACE_INTERRUPT, process, nullptr, nullptr);
  int status = 0;
  if (waitpid(process, &status, __WALL) == process) ptrace(PTRACE_DETACH, process, nullptr, nullptr);
  return true;
}

constexpr std::uint32_t kThreads = 4;

// What a child and the test both see.
struct SharedWithChild {
  std::atomic<bool> go{false};
  std::atomic<std::uint32_t> begun{0};
  std::atomic<std::uint32_t> poked{0};
  std::atomic<std::uint32_t> told{0};  // the number of threads, as the signal has it
  std::atomic<std::uint32_t> interrupted{0};
  std::atomic<bool> release{false};
  std::atomic<std::uint32_t> others{0};  // SIGSYS that came to the program's own handler
  void* own = nullptr;                   // what the program does about SIGSYS; nullptr with `takes`: the default
  bool takes = false;
  PokeDesk desk;
};

SharedWithChild* shared = nullptr;

void on_poke(int, siginfo_t* info, void*) {
  const auto value = reinterpret_cast<std::uint64_t>(info->si_value.sival_ptr);
  if (!PokeValue::is(value)) return;
  shared->told = PokeValue::threads(value);
  ++shared->poked;
}

void on_other(int, siginfo_t*, void*) {
  ++shared->others;
}

// As a runtime does that has no need of libc.
void set_action(const KernelAction* next, KernelAction* previous) {
  syscall(SYS_rt_sigaction, SIGSYS, next, previous, sizeof next->mask);
}

asm(R"(
  .pushsection .text
  .globl comex_poke_test_call
comex_poke_test_call:
  syscall
  ud2
  .popsection
)");
extern "C" const char comex_poke_test_call[];

// Leaves the handler that is there on the desk, and puts the program's own in its place.
void take_signal_away() {
  KernelAction there;
  set_action(nullptr, &there);
  shared->desk.open(reinterpret_cast<std::uint64_t>(comex_poke_test_call), there);
  there.handler = shared->own;
  set_action(&there, nullptr);
}

// A call is over when it returns anything but what a signal makes of it.
template <typename F>
void wait_in(F&& call) {
  ++shared->begun;
  if (call() < 0 && errno == EINTR) ++shared->interrupted;
}

[[noreturn]] void be_child(int pipe_end) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (!shared->go) {
  }
  struct sigaction action {};
  action.sa_sigaction = &on_poke;
  action.sa_flags = SA_SIGINFO;  // no SA_RESTART: calls would fail with EINTR
  sigaction(SIGSYS, &action, nullptr);
  if (shared->takes) take_signal_away();
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // SIGSYS too
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    char byte = 0;
    wait_in([&] { return read(pipe_end, &byte, 1); });
  });
  threads.emplace_back([&] {
    const int epoll = epoll_create1(0);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLHUP;
    epoll_ctl(epoll, EPOLL_CTL_ADD, pipe_end, &event);
    wait_in([&] { return epoll_wait(epoll, &event, 1, -1); });
  });
  threads.emplace_back([] {
    ++shared->begun;
    while (!shared->release) {  // in no call at all
    }
  });
  const timespec time{0, 500'000'000};
  wait_in([&] { return nanosleep(&time, nullptr); });
  for (std::thread& thread : threads) thread.join();
  _exit(0);
}

class PokeTest : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the thread sanitizer puts handlers off until a thread calls something";
#endif
    void* const memory =
        mmap(nullptr, sizeof(SharedWithChild), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = new (memory) SharedWithChild;
    ASSERT_EQ(pipe(ends_), 0);
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      close(ends_[1]);
      be_child(ends_[0]);
    }
    if (!can_poke(child_)) GTEST_SKIP() << "no right to ptrace";
    if (begins_at_once_) begin();
  }
  static void begin() {
    shared->go = true;
    const Deadline patience(std::chrono::seconds(20));
    while (shared->begun < kThreads && !patience.passed()) std::this_thread::yield();
  }
  // The threads get it, `times` times so far, and what they wait in does not end.
  static void expect_poked(const Expected<std::uint32_t>& count, std::uint32_t times = 1) {
    const Deadline patience(std::chrono::seconds(20));
    ASSERT_TRUE(count) << count.error().message;
    EXPECT_EQ(*count, kThreads);
    while (shared->poked < times * kThreads && !patience.passed()) std::this_thread::yield();
    ASSERT_EQ(shared->poked, times * kThreads);
    EXPECT_EQ(shared->told, kThreads);
  }
  // All that the threads wait for comes now.
  void expect_undisturbed_end() {
    ASSERT_EQ(write(ends_[1], "x", 1), 1);
    close(std::exchange(ends_[1], -1));  // for whoever comes after it was read
    shared->release = true;
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    child_ = -1;
    EXPECT_EQ(status, 0);
    EXPECT_EQ(shared->interrupted, 0U);
  }
  void TearDown() override {
    end_child();
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
    if (shared != nullptr) munmap(shared, sizeof(SharedWithChild));
    shared = nullptr;
  }
  void end_child() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = -1;
  }

  bool begins_at_once_ = true;
  pid_t child_ = -1;
  int ends_[2] = {-1, -1};
};

TEST_F(PokeTest, every_thread_gets_it_and_no_call_is_interrupted) {
  const Deadline patience(std::chrono::seconds(20));
  for (std::uint32_t round = 1; round <= 10; ++round) expect_poked(poke(child_, 0, 0, patience), round);
  expect_undisturbed_end();
}

TEST_F(PokeTest, a_spared_thread_does_not_get_it) {
  const auto count = poke(child_, child_, 0, Deadline(std::chrono::seconds(20)));
  ASSERT_TRUE(count) << count.error().message;
  EXPECT_EQ(*count, kThreads - 1);
}

TEST(Poke, a_process_without_a_handler_is_left_alone) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  const auto count = poke(child, 0, 0, Deadline(std::chrono::seconds(20)));
  ASSERT_FALSE(count);
  if (count.error().code != Errc::denied) {
    EXPECT_EQ(count.error().code, Errc::busy);
    EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "it lives";
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(PokeTest, a_process_that_is_not_there) {
  const pid_t gone = child_;
  end_child();
  const auto count = poke(gone, 0, 0, Deadline(std::chrono::seconds(1)));
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().code, Errc::disconnected);
}

// A program that does something of its own about the signal.
class PokeTakenTest : public PokeTest, public testing::WithParamInterface<std::pair<const char*, void*>> {
 protected:
  PokeTakenTest() { begins_at_once_ = false; }
};

INSTANTIATE_TEST_SUITE_P(Action, PokeTakenTest,
                         testing::Values(std::pair{"handler", reinterpret_cast<void*>(&on_other)},
                                         std::pair{"ignored", reinterpret_cast<void*>(SIG_IGN)},
                                         std::pair{"default", reinterpret_cast<void*>(SIG_DFL)}),
                         [](const auto& information) { return information.param.first; });

TEST_P(PokeTakenTest, our_handler_is_put_in_place_and_no_call_is_interrupted) {
  shared->takes = true;
  shared->own = GetParam().second;
  begin();
  expect_poked(poke(child_, 0, reinterpret_cast<std::uint64_t>(&shared->desk), Deadline(std::chrono::seconds(20))));
  EXPECT_EQ(shared->desk.found.handler, GetParam().second);
  EXPECT_EQ(shared->others, 0U);
  expect_undisturbed_end();
}

TEST_F(PokeTest, a_process_that_has_become_another_program_is_left_alone) {
  const Deadline patience(std::chrono::seconds(20));
  const auto unmapped = poke(child_, 0, 4096, patience);
  ASSERT_FALSE(unmapped);
  EXPECT_EQ(unmapped.error().code, Errc::busy);
  const auto no_mark = poke(child_, 0, reinterpret_cast<std::uint64_t>(&shared->desk), patience);
  ASSERT_FALSE(no_mark);
  EXPECT_EQ(no_mark.error().code, Errc::busy);
  EXPECT_EQ(shared->poked, 0U);
  expect_undisturbed_end();
}

// A second one would be lost, and the others wait for the thread that it was for.
TEST_F(PokeTest, a_signal_of_the_same_number_that_waits_already) {
  ASSERT_EQ(kill(child_, SIGSYS), 0);  // blocked by all
  const auto count = poke(child_, 0, 0, Deadline(std::chrono::seconds(20)));
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().code, Errc::busy);
  expect_undisturbed_end();
}

}  // namespace
}  // namespace comex

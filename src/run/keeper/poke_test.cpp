#include "run/keeper/poke.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <future>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/read_file.h"
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

// Without giving up the processor: how long that would take is up to others.
void spin(std::chrono::microseconds time) {
  const Deadline end(time);
  while (!end.passed()) {
  }
}

// Whenever that is: a thread that ends while it is being stopped says nothing if it is the first of several.
TEST(PokeFirstThread, ends_at_any_moment) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer has threads of its own";
#endif
  for (int round = 0; round < 200; ++round) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::thread([] { pause(); }).detach();
      (void)!write(ends[1], "x", 1);
      spin(std::chrono::microseconds(round * 10));
      for (;;) syscall(SYS_exit, 0);
    }
    char byte = 0;
    ASSERT_EQ(read(ends[0], &byte, 1), 1);
    // Without a handler it is not sent: it was stopped, though, and goes on.
    const auto stopped = [&] { return poke(child, 0, 0, Deadline(std::chrono::seconds(20))).error().code; };
    const auto stat = [&] { return read_file("/proc/" + std::to_string(child) + "/stat").value_or(""); };
    do {
      ASSERT_EQ(stopped(), Errc::busy) << round;
    } while (stat().find(") Z ") == std::string::npos);
    EXPECT_EQ(stopped(), Errc::busy) << round;
    kill(child, SIGKILL);
    while (waitpid(child, nullptr, __WALL) >= 0) {
    }
    for (const int end : ends) close(end);
  }
}

// Kills a process that is in the way of a test for too long: whoever waits for it goes on then.
class Watchdog {
 public:
  explicit Watchdog(pid_t process) : thread_([this, process] { watch(process); }) {}
  ~Watchdog() { (void)has_bitten(); }
  // Ends it.
  bool has_bitten() {
    if (thread_.joinable()) {
      called_back_.set_value();
      thread_.join();
    }
    return has_bitten_;
  }

 private:
  void watch(pid_t process) {
    if (called_back_.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready) return;
    has_bitten_ = true;
    kill(process, SIGKILL);
  }

  std::promise<void> called_back_;
  bool has_bitten_ = false;
  std::thread thread_;
};

// Becomes `cat`, by a thread that is not the first, after a time.
[[noreturn]] void execute_by_another_thread(int input, int output, int delay) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  for (int i = 0; i < 6; ++i) std::thread([] { pause(); }).detach();
  (void)!write(output, "x", 1);
  std::thread([delay] {
    spin(std::chrono::microseconds(delay * 10));
    execlp("cat", "cat", nullptr);
    _exit(1);
  }).detach();
  for (;;) pause();
}

bool comes_within(int end, Deadline patience) {
  pollfd ready{end, POLLIN, 0};
  char byte = 0;
  return poll(&ready, 1, patience.remaining_ms()) == 1 && read(end, &byte, 1) == 1;
}

// That thread gets the number of the first one, and waits until all the others, which are held, have been reaped.
TEST(PokeExec, by_another_thread_at_any_moment) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer has threads of its own";
#endif
  for (int round = 0; round < 200; ++round) {
    int input[2] = {-1, -1};
    int output[2] = {-1, -1};
    ASSERT_EQ(pipe2(input, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(output, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) execute_by_another_thread(input[0], output[1], round);
    Watchdog watchdog(child);
    const Deadline patience(std::chrono::seconds(20));
    ASSERT_TRUE(comes_within(output[0], patience)) << round;
    const auto name = [&] { return read_file("/proc/" + std::to_string(child) + "/comm").value_or("cat\n"); };
    // Neither has a handler: it was stopped, and goes on.
    const auto stopped = [&] { return poke(child, 0, 0, Deadline(std::chrono::seconds(20))).error().code; };
    Errc code = Errc::busy;
    while (code == Errc::busy && name() != "cat\n") code = stopped();
    EXPECT_EQ(code, Errc::busy) << round;
    EXPECT_EQ(stopped(), Errc::busy) << round;
    EXPECT_EQ(write(input[1], "x", 1), 1);
    EXPECT_TRUE(comes_within(output[0], Deadline(std::chrono::seconds(20)))) << "it goes on";
    EXPECT_FALSE(watchdog.has_bitten()) << round;
    kill(child, SIGKILL);
    while (waitpid(child, nullptr, __WALL) >= 0) {
    }
    for (const int end : {input[0], input[1], output[0], output[1]}) close(end);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(PokeProcess, ends_at_any_moment) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer has threads of its own";
#endif
  for (int round = 0; round < 200; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (int i = 0; i < 6; ++i) std::thread([] { pause(); }).detach();
      spin(std::chrono::microseconds(round * 10));
      _exit(0);
    }
    Watchdog watchdog(child);
    Errc code = Errc::busy;
    while (code == Errc::busy) code = poke(child, 0, 0, Deadline(std::chrono::seconds(20))).error().code;
    EXPECT_EQ(code, Errc::disconnected) << round;
    EXPECT_FALSE(watchdog.has_bitten()) << round;
    waitpid(child, nullptr, __WALL);
    if (testing::Test::HasFailure()) return;
  }
}

// It cannot be stopped, and nobody waits until it can.
TEST(Poke, a_thread_that_waits_for_a_child_of_vfork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "there vfork is fork";
#endif
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(ends[1]);
    if (vfork() == 0) {
      char byte = 0;
      (void)!read(ends[0], &byte, 1);
      _exit(0);
    }
    _exit(0);
  }
  Watchdog watchdog(child);
  const auto waits = [&] {
    return read_file("/proc/" + std::to_string(child) + "/stat").value_or("").find(") D ") != std::string::npos;
  };
  const Deadline patience(std::chrono::seconds(20));
  while (!waits() && !patience.passed()) std::this_thread::yield();
  const auto count = poke(child, 0, 0, Deadline(std::chrono::milliseconds(50)));
  EXPECT_TRUE(waits());
  for (const int end : ends) close(end);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(watchdog.has_bitten());
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().code, Errc::timeout);
}

// What cannot be looked at is not what is not there.
TEST_F(PokeTest, without_a_descriptor_left_nobody_has_ended) {
#ifdef __clang__
  GTEST_SKIP() << "its sanitizers need descriptors of their own";
#endif
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto count = poke(child_, 0, 0, Deadline(std::chrono::seconds(20)));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().code, Errc::busy);
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

TEST(Poke, a_process_with_no_thread_but_the_spared_one) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer has a thread of its own";
#endif
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  const auto count = poke(child, child, 0, Deadline(std::chrono::seconds(20)));
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().code, Errc::disconnected);
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

TEST_F(PokeTest, what_is_not_to_be_sent_any_more_once_they_are_stopped) {
  const auto count = poke(child_, 0, 0, Deadline(std::chrono::seconds(20)), [] { return false; });
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().code, Errc::busy);
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

// A handler of the runtime may wait for us, with the signal blocked.
TEST_F(PokeTest, a_signal_of_the_same_number_is_let_in_where_the_runtime_blocks_it) {
  ASSERT_EQ(kill(child_, SIGSYS), 0);
  const Deadline patience(std::chrono::seconds(20));
  const auto first = poke(child_, 0, 0, patience, nullptr, true);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Errc::busy);
  auto count = poke(child_, 0, 0, patience, nullptr, true);
  while (!count && count.error().code == Errc::busy && !patience.passed()) {
    count = poke(child_, 0, 0, patience, nullptr, true);
  }
  EXPECT_TRUE(count) << count.error().message;
}

}  // namespace
}  // namespace comex

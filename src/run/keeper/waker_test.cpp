#include "run/keeper/waker.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/read_file.h"
#include "run/poke_desk.h"

extern "C" const char comex_poke_test_call[];  // poke_test.cpp: a system-call instruction

namespace comex {
namespace {

TEST(PrivatePages, are_those_that_the_process_has_touched) {
  constexpr std::size_t kPages = 4096;
  constexpr std::uint64_t kSlack = 512;  // the kernel counts per processor
  const auto self = static_cast<std::uint32_t>(getpid());
  const std::uint64_t before = private_pages(self);
  EXPECT_GT(before, 0U);
  void* const memory = mmap(nullptr, kPages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 1, kPages * 4096);
  EXPECT_GE(private_pages(self) + kSlack, before + kPages);
  munmap(memory, kPages * 4096);
}

// The kernel then says of the process that it has none.
TEST(PrivatePages, of_a_process_whose_first_thread_has_ended) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::thread([] { pause(); }).detach();
    for (;;) syscall(SYS_exit, 0);
  }
  const auto stat = [&] { return read_file("/proc/" + std::to_string(child) + "/stat").value_or(""); };
  const Deadline patience(std::chrono::seconds(20));
  while (stat().find(") Z ") == std::string::npos && !patience.passed()) std::this_thread::yield();
  EXPECT_GT(private_pages(static_cast<std::uint32_t>(child)), 0U);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(PrivatePages, of_a_process_that_is_not_there) {
  EXPECT_EQ(private_pages(UINT32_MAX), 0U);
}

TEST(RoomBudget, what_is_used_elsewhere_is_taken_off) {
  auto room = std::make_unique<Room>();
  const Budget& budget = room->budget;
  room->set_budget(10'000, 0);
  EXPECT_EQ(budget.limit, 10'000U);
  room->set_budget(10'000, 3'000);
  EXPECT_EQ(budget.limit, 7'000U);
  EXPECT_GT(budget.ahead, 0U);
  EXPECT_LT(budget.ahead, budget.limit);
}

TEST(RoomBudget, the_pagers_keep_a_part_whatever_else_is_used) {
  auto room = std::make_unique<Room>();
  const Budget& budget = room->budget;
  room->set_budget(10'000, 9'999);
  EXPECT_EQ(budget.limit, 2'500U);
  room->set_budget(10'000, 1'000'000);
  EXPECT_EQ(budget.limit, 2'500U);
}

TEST(RoomAccounts, a_process_that_begins_again_has_its_account_cleared) {
  auto room = std::make_unique<Room>();
  Room::Owned* const first = room->open_account(7);
  Share(room->budget, first->account).charge(100);
  first->life = Room::Life::awake;
  Room::Owned* const other = room->open_account(8);
  EXPECT_NE(first, other);
  EXPECT_EQ(room->open_account(7), first);
  EXPECT_EQ(room->budget.local, 0U);
  EXPECT_EQ(first->life, Room::Life::dormant);
}

// The kernel takes it for shared memory, which is nobody's.
TEST(Waker, what_a_process_shares_with_the_keeper_is_taken_off_the_budget) {
  constexpr std::uint64_t kBudget = 10'000'000;
  constexpr std::uint32_t kDocked = 1'000'000;
  auto room = std::make_unique<Room>();
  Room::Owned* const owned = room->open_account(static_cast<std::uint32_t>(getpid()));
  owned->life = Room::Life::awake;
  owned->docked = kDocked;
  const Waker waker(*room, kBudget);
  const Deadline patience(std::chrono::seconds(20));
  const auto taken_off = [&] {
    const std::uint64_t limit = room->budget.limit;
    return limit > 0 && limit <= kBudget - kDocked;
  };
  while (!taken_off() && !patience.passed()) std::this_thread::sleep_for(Millis(1));
  EXPECT_TRUE(taken_off()) << room->budget.limit;
}

struct Beginner {
  Room room;
  PokeDesk desk;
  std::atomic<std::uint32_t> woken{0};
  std::atomic<std::uint32_t> woken_while_dormant{0};
};

Beginner* beginner = nullptr;

void on_waking(int, siginfo_t*, void*) {
  const bool waking = beginner->room.accounts[0].life == Room::Life::waking;
  ++(waking ? beginner->woken : beginner->woken_while_dormant);
}

// As a dormant process does: memory worth waking for, and, if it is one of ours, the handler and an open desk.
void begin(std::size_t bytes, PokeDesk& desk, bool ours) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct sigaction action {};
  action.sa_sigaction = &on_waking;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  KernelAction there;
  syscall(SYS_rt_sigaction, SIGSYS, nullptr, &there, sizeof there.mask);
  if (ours) desk.open(reinterpret_cast<std::uint64_t>(comex_poke_test_call), there);
  std::memset(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, bytes);
}

void open_account(PokeDesk& desk) {
  Room::Owned* const owned = beginner->room.open_account(static_cast<std::uint32_t>(getpid()));
  owned->desk = reinterpret_cast<std::uint64_t>(&desk);
}

// Says again and again that it has become another program; that one has its desk at the same place.
[[noreturn]] void begin_anew_for_ever() {
  begin(4 << 20, beginner->desk, true);
  for (int i = 0;; i = (i + 1) % 20) {
    open_account(beginner->desk);
    const Deadline a_while(std::chrono::microseconds(i * 200));
    while (!a_while.passed()) {
    }
  }
}

// It would be counted as two threads, and wait for ever for the other one.
TEST(Waker, a_process_that_begins_anew_just_then_is_not_woken_while_it_counts_as_dormant) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer puts handlers off until a thread calls something";
#endif
  void* const memory = mmap(nullptr, sizeof(Beginner), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  beginner = new (memory) Beginner;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) begin_anew_for_ever();
  constexpr std::uint32_t kEnough = 20;
  std::atomic<bool> denied{false};
  std::atomic<std::uint32_t> left_alone{0};
  {
    const Waker waker(beginner->room, 16, [&](pid_t, const Error& error) {
      if (error.code == Errc::denied) denied = true;
      ++left_alone;
    });
    const Deadline patience(std::chrono::seconds(20));
    const auto enough = [&] { return beginner->woken >= kEnough && left_alone >= kEnough; };
    while (!enough() && !denied && !patience.passed()) std::this_thread::sleep_for(Millis(1));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(denied || beginner->woken >= kEnough) << beginner->woken;
  EXPECT_EQ(beginner->woken_while_dormant, 0U);
  munmap(memory, sizeof(Beginner));
}

// The largest is a program that is not ours any more: it is not disturbed, and does not keep others from being woken.
TEST(Waker, one_that_cannot_be_woken_is_left_in_peace_and_others_are_woken) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "with the thread sanitizer the handler is not always called; why is not known";
#endif
  void* const memory = mmap(nullptr, sizeof(Beginner), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  beginner = new (memory) Beginner;
  std::array<pid_t, 2> children{};
  for (const bool ours : {false, true}) {
    pid_t& child = children[ours ? 1 : 0];
    child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) continue;
    PokeDesk desk;
    begin(ours ? 4 << 20 : 16 << 20, desk, ours);
    open_account(desk);
    // A wait with a time-out, which would begin anew each time that somebody stops it.
    do poll(nullptr, 0, 300);
    while (ours);
    _exit(0);
  }
  std::atomic<bool> denied{false};
  {
    const Waker waker(beginner->room, 16, [&](pid_t, const Error& error) {
      if (error.code == Errc::denied) denied = true;
    });
    const Deadline patience(std::chrono::seconds(20));
    int status = -1;
    bool in_peace = false;
    const auto woken = [] { return beginner->woken + beginner->woken_while_dormant > 0; };
    while (!patience.passed() && !denied && !(in_peace && woken())) {
      in_peace = in_peace || waitpid(children[0], &status, WNOHANG) == children[0];
      std::this_thread::sleep_for(Millis(1));
    }
    EXPECT_TRUE(denied || in_peace);
    EXPECT_TRUE(denied || woken());
  }
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  munmap(memory, sizeof(Beginner));
}

}  // namespace
}  // namespace comex

#include "run/keeper/census.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <memory>
#include <thread>

namespace comex {
namespace {

std::uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

class CensusTest : public ::testing::Test {
 protected:
  // A process that waits until it is killed.
  static pid_t start() {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    for (;;) pause();
  }
  static void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  Room::Owned& open(pid_t pid, std::uint64_t since) {
    Room::Owned& owned = *room_->open_account(static_cast<std::uint32_t>(pid));
    owned.record.begin("program", since);
    Share share(room_->budget, owned.account);
    share.charge(100);
    owned.record.tallies[3].pager.pages_in = 7;
    owned.record.with(NodeId{5}).pages_read = 7;
    return owned;
  }

  std::unique_ptr<Room> room_ = std::make_unique<Room>();
  Census census_{*room_};
};

TEST_F(CensusTest, startOfProcess_ofOneThatEndsMeanwhile) {
  for (int i = 0; i < 100; ++i) {
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    std::thread parent([pid] { waitpid(pid, nullptr, 0); });
    while (start_of_process(static_cast<std::uint32_t>(pid)) != 0) {
    }
    parent.join();
  }
}

TEST_F(CensusTest, look_accountsOfTheDeadAreClosedAndCounted) {
  const pid_t first = start();
  const pid_t second = start();
  Room::Owned& owned = open(first, now());
  open(second, now());
  census_.look();
  EXPECT_EQ(census_.living(), 2U);
  EXPECT_EQ(room_->budget.local, 200U);
  end(first);
  census_.look();
  EXPECT_EQ(census_.living(), 1U);
  EXPECT_EQ(room_->budget.local, 100U);
  EXPECT_EQ(owned.pid, 0U);
  EXPECT_EQ(owned.record.tallies[3].pager.pages_in, 0U) << "for whoever comes next";
  end(second);
  census_.look();
  EXPECT_EQ(census_.living(), 0U);
  ASSERT_EQ(census_.ended().size(), 2U);
  EXPECT_EQ(census_.ended()[0].pid, static_cast<std::uint32_t>(first));
  EXPECT_EQ(census_.ended()[0].name, "program");
  EXPECT_EQ(census_.ended()[0].figures.peak, 100U);
  EXPECT_EQ(census_.total().pages_in, 14U);
  EXPECT_EQ(census_.total().links.at(5).pages_read, 14U);
}

TEST_F(CensusTest, look_aZombieIsDead) {
  const pid_t pid = start();
  open(pid, now());
  census_.look();
  kill(pid, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
  census_.look();
  EXPECT_EQ(census_.living(), 0U);
  waitpid(pid, nullptr, 0);
}

// The process of the account ended unseen, and its number was given to another.
TEST_F(CensusTest, look_anotherProcessOfTheSameNumber) {
  const std::uint64_t before = now() - 1'000'000'000;
  const pid_t pid = start();
  open(pid, before);
  census_.look();
  EXPECT_EQ(census_.living(), 0U);
  EXPECT_EQ(room_->budget.local, 0U);
  end(pid);
}

TEST_F(CensusTest, with_moreNodesThanThereIsRoomForShareTheLast) {
  auto record = std::make_unique<Record>();
  for (std::uint16_t id = 0; id < 20; ++id) record->with(NodeId{id}).reads += 1;
  EXPECT_EQ(record->traffic[0].reads, 1U);
  EXPECT_EQ(record->traffic.back().reads, 5U);
  EXPECT_EQ(&record->with(NodeId{3}), &record->traffic[3]);
}

TEST(Room, a_free_account_is_all_zeros) {
  alignas(Room::Owned) std::array<std::byte, sizeof(Room::Owned)> memory{};
  new (memory.data()) Room::Owned;
  EXPECT_EQ(memory, (std::array<std::byte, sizeof(Room::Owned)>{}));
}

}  // namespace
}  // namespace comex

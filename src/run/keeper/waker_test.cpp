#include "run/keeper/waker.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>

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

}  // namespace
}  // namespace comex

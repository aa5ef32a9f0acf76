#include "pager/headroom.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

constexpr std::uint64_t kMostAhead = 8192;

// Eviction is woken, and finds that so many pages have come in meanwhile.
void work(Headroom& headroom, std::uint64_t came, int times = 1) {
  for (int i = 0; i < times; ++i) {
    const std::uint64_t room = headroom.room(kMostAhead);
    headroom.turn(room > came ? room - came : 0);
    headroom.turn(room);
    headroom.rest(kMostAhead);
  }
}

TEST(Headroom, room_beginsWithAllThereMayBe) {
  const Headroom headroom;
  EXPECT_EQ(headroom.room(kMostAhead), kMostAhead / 2);
  EXPECT_EQ(headroom.room(100), 50U);
  EXPECT_EQ(Headroom::depth(100), 50U);
}

TEST(Headroom, room_followsWhatComesInMeanwhile) {
  Headroom headroom;
  work(headroom, 400, 300);
  EXPECT_EQ(headroom.room(kMostAhead), 800U);
  work(headroom, 10, 1000);
  EXPECT_EQ(headroom.room(kMostAhead), Headroom::kLeastRoom) << "slowly";
  work(headroom, 150);
  EXPECT_EQ(headroom.room(kMostAhead), 300U) << "at once";
}

TEST(Headroom, room_doublesWhenItWasUsedUp) {
  Headroom headroom;
  work(headroom, 10, 1000);
  ASSERT_EQ(headroom.room(kMostAhead), Headroom::kLeastRoom);
  work(headroom, 5000);
  EXPECT_EQ(headroom.room(kMostAhead), 2 * Headroom::kLeastRoom);
  work(headroom, 5000, 10);
  EXPECT_EQ(headroom.room(kMostAhead), kMostAhead / 2) << "no more than there may be";
}

TEST(Headroom, rest_withoutWorkSaysNothing) {
  Headroom headroom;
  work(headroom, 400, 300);
  for (int i = 0; i < 1000; ++i) headroom.rest(kMostAhead);
  EXPECT_EQ(headroom.room(kMostAhead), 800U);
}

}  // namespace
}  // namespace comex

// How threads wait on a lane, with a device that the test plays.
#include "fabric/lane.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <functional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "fabric/lane_set.h"

namespace {
thread_local int looks_at_the_clock = 0;
}

// In place of the C library's, for the whole of this program: it counts.
extern "C" int clock_gettime(clockid_t which, timespec* when) noexcept {
  if (which == CLOCK_MONOTONIC) ++looks_at_the_clock;
  return static_cast<int>(::syscall(SYS_clock_gettime, which, when));
}

namespace comex {
namespace {

constexpr Millis kTimeout{20'000};

// Its transfers are done at a certain look.
class ScriptedLane final : public Lane {
 public:
  ScriptedLane(std::atomic<Errc>& broken, Nanos max_spin) : Lane(broken, max_spin) {}

  void fail_all(Errc why) noexcept override {
    while (Transfer* const transfer = queue_.pop()) complete(*transfer, why);
  }
  void shut() noexcept override {}

  int done_at_look = 1;
  int sleeps = 0;

 private:
  Errc send_some() noexcept override { return Errc::ok; }
  Errc receive_some(bool* moved) noexcept override {
    *moved = --done_at_look == 0;
    if (*moved) complete(*queue_.pop(), Errc::ok);
    return Errc::ok;
  }
  bool sleep(const Deadline&, Errc*) noexcept override {
    ++sleeps;
    return true;
  }
  Transfer* oldest() noexcept override { return queue_.front(); }
  bool help(Errc*) noexcept override { return false; }
};

// A device that has room for one transfer at a time.
class NarrowLane final : public Lane {
 public:
  explicit NarrowLane(std::atomic<Errc>& broken) : Lane(broken, Nanos(0)) {}

  void fail_all(Errc why) noexcept override {
    if (flying_ != nullptr) complete(*std::exchange(flying_, nullptr), why);
    while (Transfer* const transfer = queue_.pop()) complete(*transfer, why);
  }
  void shut() noexcept override {}

  std::function<void()> when_full;  // what happens when there is no room, once
  bool came = false;                // what flies has landed
  int looks = 0;                    // at what has come
  int sent = 0;

 private:
  Errc send_some() noexcept override {
    if (flying_ == nullptr && !queue_.empty()) {
      flying_ = queue_.pop();
      ++sent;
    }
    unsent_.store(!queue_.empty());
    if (!queue_.empty() && when_full) std::exchange(when_full, nullptr)();
    return Errc::ok;
  }
  Errc receive_some(bool* moved) noexcept override {
    ++looks;
    *moved = std::exchange(came, false);
    if (*moved) complete(*std::exchange(flying_, nullptr), Errc::ok);
    return Errc::ok;
  }
  bool sleep(const Deadline&, Errc*) noexcept override { return true; }
  Transfer* oldest() noexcept override { return flying_; }
  bool help(Errc*) noexcept override { return false; }

  Transfer* flying_ = nullptr;
};

class LaneTest : public ::testing::Test {
 protected:
  // Looks at the clock that reading a page took.
  int read_page(ScriptedLane& lane) {
    if (!std::exchange(added_, true)) set_.add(lane);
    Transfer transfer(Direction::read, std::span(&segment_, 1));
    looks_at_the_clock = 0;
    set_.submit(transfer, 0);
    EXPECT_EQ(set_.wait(transfer), Errc::ok);
    return looks_at_the_clock;
  }

  LaneSet set_{kTimeout};
  bool added_ = false;
  std::vector<std::byte> page_ = std::vector<std::byte>(kPageSize);
  Segment segment_{FrameNo{7}, 1, page_.data()};
};

// It is a system call, and 2 us, where the clock is an HPET: what a read takes on a good device.
TEST_F(LaneTest, what_is_there_at_the_first_look_costs_no_look_at_the_clock) {
  ScriptedLane lane(set_.broken_word(), std::chrono::seconds(1));
  read_page(lane);
  lane.done_at_look = 1;
  EXPECT_EQ(read_page(lane), 0);
  EXPECT_EQ(lane.sleeps, 0);
}

TEST_F(LaneTest, what_spinning_catches_is_not_followed_by_a_look_at_the_clock) {
  ScriptedLane lane(set_.broken_word(), std::chrono::seconds(1));
  if (SpinPolicy(std::chrono::seconds(1)).budget() == Nanos(0)) GTEST_SKIP() << "a single core: nobody spins";
  lane.done_at_look = 3;  // two looks before the clock is looked at again
  EXPECT_LE(read_page(lane), 2) << "one for the wait, one for the policy, both while the page is on its way";
  EXPECT_EQ(lane.sleeps, 0);
}

TEST_F(LaneTest, what_does_not_come_in_time_is_slept_for) {
  ScriptedLane lane(set_.broken_word(), Nanos(0));
  lane.done_at_look = 3;
  read_page(lane);
  EXPECT_GT(lane.sleeps, 0);
}

// Whoever makes it cannot use it, for the other has the mutex; it may sleep then, and nobody else would look.
TEST_F(LaneTest, room_that_is_made_while_another_finds_none_is_used) {
  NarrowLane lane(set_.broken_word());
  set_.add(lane);
  Transfer first(Direction::read, std::span(&segment_, 1));
  Transfer second(Direction::read, std::span(&segment_, 1));
  set_.submit(first, 0);
  lane.when_full = [&] {
    lane.came = true;
    set_.progress();
  };
  set_.submit(second, 0);
  EXPECT_TRUE(first.done());
  EXPECT_EQ(lane.sent, 2);
  set_.sever(Errc::disconnected);
}

// What the device still says then is of transfers that are long over.
TEST_F(LaneTest, what_had_come_to_a_lane_that_ends_is_not_looked_at) {
  NarrowLane lane(set_.broken_word());
  set_.add(lane);
  Transfer first(Direction::read, std::span(&segment_, 1));
  Transfer second(Direction::read, std::span(&segment_, 1));
  set_.submit(first, 0);
  set_.submit(second, 0);
  lane.when_full = [&] { set_.sever(Errc::disconnected); };
  set_.progress();  // has seen that something is outstanding when the lane ends
  EXPECT_EQ(first.result(), Errc::disconnected);
  EXPECT_EQ(second.result(), Errc::disconnected);
  EXPECT_EQ(lane.looks, 0);
}

TEST(RecentNow, is_a_tick_behind_the_clock_at_most) {
  const auto before = Clock::now();
  const auto recent = recent_now();
  EXPECT_LE(recent, Clock::now());
  EXPECT_LT(before - recent, std::chrono::milliseconds(100));
}

}  // namespace
}  // namespace comex

#include "trace/ring.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <thread>
#include <vector>

namespace comex {
namespace {

// As it is in a file: all zeros, and on a page.
class TraceRingTest : public ::testing::Test {
 protected:
  TraceRingTest()
      : ring_(*static_cast<TraceRing*>(
            mmap(nullptr, sizeof(TraceRing), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~TraceRingTest() override { munmap(&ring_, sizeof ring_); }

  TraceRing::Next next() { return ring_.next(&fault_, name_, &note_); }

  TraceRing& ring_;
  TraceFault fault_;
  char name_[TraceRing::kName] = {};
  TraceNote note_;
};

TEST_F(TraceRingTest, next_whatWasPut) {
  EXPECT_EQ(next(), TraceRing::Next::none);
  ring_.begin(5, "program");
  const TraceFault put{.time = 123'456'789'012'345,
                       .page = (std::uint64_t{1} << 47) - 1,
                       .thread = 4'194'304,
                       .origin = Origin::failed,
                       .write = true,
                       .along = 63,
                       .around = 62};
  ring_.note(6, {TraceNote::heap, UINT64_MAX});
  ring_.put(put);
  EXPECT_EQ(next(), TraceRing::Next::begin);
  EXPECT_EQ(fault_.time, 5U);
  EXPECT_STREQ(name_, "program");
  EXPECT_EQ(next(), TraceRing::Next::note);
  EXPECT_EQ(note_.what, TraceNote::heap);
  EXPECT_EQ(note_.value, UINT64_MAX);
  EXPECT_EQ(next(), TraceRing::Next::fault);
  EXPECT_EQ(fault_, put);
  EXPECT_EQ(next(), TraceRing::Next::none);
}

TEST_F(TraceRingTest, put_dropsAndCountsWhatHasNoRoom) {
  for (std::uint64_t i = 0; i < TraceRing::kSlots + 10; ++i) ring_.put({.time = i});
  EXPECT_EQ(ring_.take_dropped(), 10U);
  EXPECT_EQ(ring_.take_dropped(), 0U);
  for (std::uint64_t i = 0; i < TraceRing::kSlots; ++i) {
    ASSERT_EQ(next(), TraceRing::Next::fault);
    ASSERT_EQ(fault_.time, i);
  }
  EXPECT_EQ(next(), TraceRing::Next::none);
  ring_.put({.time = 7});
  EXPECT_EQ(next(), TraceRing::Next::fault);
}

TEST_F(TraceRingTest, put_nothingIsLostOrTornAmongThreads) {
  constexpr std::uint64_t kThreads = 3;
  constexpr std::uint64_t kEach = 3 * TraceRing::kSlots;
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 1; thread <= kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      for (std::uint64_t i = 1; i <= kEach; ++i) ring_.put({.time = i, .page = i * thread, .thread = thread});
    });
  }
  std::uint64_t seen = 0;
  std::uint64_t dropped = 0;
  std::uint64_t last[kThreads + 1] = {};
  while (seen + dropped < kThreads * kEach) {
    if (next() == TraceRing::Next::fault) {
      ASSERT_EQ(fault_.page, fault_.time * fault_.thread);
      ASSERT_GT(fault_.time, last[fault_.thread]);
      last[fault_.thread] = fault_.time;
      ++seen;
    } else {
      dropped += ring_.take_dropped();
      std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(next(), TraceRing::Next::none);
}

}  // namespace
}  // namespace comex

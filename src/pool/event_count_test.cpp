#include "pool/event_count.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace comex {
namespace {

constexpr auto kCap = std::chrono::seconds(30);

TEST(EventCount, wait_returnsAtOnceWhenAdvancedBefore) {
  EventCount event;
  const auto seen = event.current();
  event.advance();
  EXPECT_TRUE(event.wait(seen, Clock::now() + kCap));
}

TEST(EventCount, wait_endsAtTheDeadline) {
  EventCount event;
  const auto until = Clock::now() + Millis(5);
  EXPECT_FALSE(event.wait(event.current(), until));
  EXPECT_GE(Clock::now(), until);
}

TEST(EventCount, advance_isNeverMissed) {
  constexpr int kRounds = 20'000;
  EventCount event;
  std::atomic<int> produced{0};
  std::thread producer([&] {
    for (int i = 0; i < kRounds; ++i) {
      produced.store(i + 1);
      event.advance();
    }
  });
  int last = 0;
  while (last < kRounds) {
    const auto seen = event.current();
    const int now = produced.load();
    if (now == last) {
      ASSERT_TRUE(event.wait(seen, Clock::now() + kCap));
    }
    last = now;
  }
  producer.join();
}

}  // namespace
}  // namespace comex

#include "pool/mend_queue.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

constexpr auto kAny = [](std::uint32_t) { return true; };

TEST(MendQueue, take_thoseWithTheFewestCopiesFirst) {
  MendQueue queue;
  queue.push(1, 2);
  queue.push(2, 1);
  queue.push(3, 2);
  queue.push(4, 1);
  EXPECT_EQ(queue.size(), 4U);
  for (const std::uint32_t chunk : {2U, 4U, 1U, 3U}) EXPECT_EQ(queue.take(kAny), chunk);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.take(kAny), std::nullopt);
}

TEST(MendQueue, take_whatDoesNotFitKeepsItsPlace) {
  MendQueue queue;
  queue.push(1, 1);
  queue.push(2, 1);
  queue.push(3, 2);
  EXPECT_EQ(queue.take([](std::uint32_t chunk) { return chunk > 1; }), 2U);
  EXPECT_EQ(queue.take([](std::uint32_t chunk) { return chunk > 1; }), 3U);
  EXPECT_EQ(queue.take([](std::uint32_t chunk) { return chunk > 1; }), std::nullopt);
  EXPECT_EQ(queue.take(kAny), 1U);
}

TEST(MendQueue, push_asManyLeftAsThereMayBe) {
  MendQueue queue;
  queue.push(1, 1'000);
  queue.push(2, 0);
  EXPECT_EQ(queue.take(kAny), 2U);
  EXPECT_EQ(queue.take(kAny), 1U);
}

}  // namespace
}  // namespace comex

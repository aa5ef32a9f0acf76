#include "pool/backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace comex {
namespace {

TEST(Backoff, next_doublesUpToTheLongest) {
  Backoff backoff(Millis(100), Millis(1000), 1);
  for (const int whole : {100, 200, 400, 800, 1000, 1000}) {
    const auto wait = backoff.next();
    EXPECT_GE(wait, Millis(whole) / 2);
    EXPECT_LE(wait, Millis(whole));
  }
  backoff.reset();
  EXPECT_LE(backoff.next(), Millis(100));
}

TEST(Backoff, next_differsFromClientToClient) {
  std::set<Nanos> waits;
  for (std::uint64_t seed = 0; seed < 100; ++seed) waits.insert(Backoff(Millis(100), Millis(1000), seed).next());
  EXPECT_GT(waits.size(), 90U);
}

}  // namespace
}  // namespace comex

#include "pager/write_guess.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

constexpr std::uint64_t kSend = 3'000;  // ns

// Of every ten pages that are placed clean so many are written to.
void see(WriteGuess& guess, int tenths, std::uint64_t lift_ns) {
  for (int i = 0; i < 640; ++i) {
    guess.placed(1);
    if (i % 10 >= tenths) continue;
    guess.written();
    guess.lifted(lift_ns);
  }
}

TEST(WriteGuess, likely_notBeforeAnythingIsKnown) {
  WriteGuess guess;
  EXPECT_FALSE(guess.likely(kSend));
  guess.written();
  guess.lifted(1'000'000);
  EXPECT_FALSE(guess.likely(kSend));
}

TEST(WriteGuess, likely_dependsOnHowManyAreWrittenTo) {
  WriteGuess guess;
  see(guess, 0, 0);
  EXPECT_FALSE(guess.likely(kSend));
  see(guess, 8, 1'000);
  EXPECT_TRUE(guess.likely(kSend));
  see(guess, 1, 1'000);
  EXPECT_FALSE(guess.likely(kSend)) << "it follows what changes";
}

TEST(WriteGuess, likely_dependsOnWhatAGuardAndASendCost) {
  WriteGuess cheap;
  see(cheap, 3, 1'000);
  EXPECT_FALSE(cheap.likely(kSend));
  WriteGuess dear;
  see(dear, 3, 20'000);
  EXPECT_TRUE(dear.likely(kSend)) << "as on a virtual machine";
  EXPECT_FALSE(dear.likely(50'000)) << "but not over a slow link";
}

TEST(WriteGuess, likely_pagesThatWereHereBeforeMayBeWrittenToInAnyNumber) {
  WriteGuess guess;
  for (int i = 0; i < 1000; ++i) guess.written();
  see(guess, 10, 1'000);
  EXPECT_TRUE(guess.likely(kSend));
}

TEST(WriteGuess, pays_byTheShareAndTheCosts) {
  WriteGuess guess;
  guess.lifted(10'000);
  EXPECT_TRUE(guess.pays(Odds::kOne, kSend)) << "if all are written to, whatever they cost";
  EXPECT_TRUE(guess.pays(Odds::kOne / 2, kSend));
  EXPECT_FALSE(guess.pays(Odds::kOne / 16, kSend));
  EXPECT_FALSE(guess.pays(0, 1));
}

TEST(WriteGuess, counts_allWhenFewArePlacedClean) {
  WriteGuess guess;
  EXPECT_TRUE(guess.counts(true));
  EXPECT_FALSE(guess.counts(false));
  see(guess, 10, 1'000);
  ASSERT_TRUE(guess.likely(kSend));
  EXPECT_TRUE(guess.counts(false));
}

}  // namespace
}  // namespace comex

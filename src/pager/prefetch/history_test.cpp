#include "pager/prefetch/history.h"

#include <gtest/gtest.h>

#include <thread>

namespace comex {
namespace {

constexpr PageNo kHere{1'000'000};

FaultStream stream_at(PageNo last, std::int64_t step, std::uint16_t covered) {
  FaultStream stream;
  stream.begin(last);
  stream.step = {step};
  stream.covered = stream.brought = covered;
  return stream;
}

TEST(FaultStream, stepsTo_alongTheTrendAsFarAsExpected) {
  const FaultStream up = stream_at(kHere, 10, 3);
  EXPECT_EQ(up.expected(), kHere + 40);
  EXPECT_EQ(up.steps_to(kHere + 40), 4U);
  EXPECT_EQ(up.steps_to(kHere + 20), 2U);
  for (const std::uint64_t off : {0, 5, 39, 41, 50}) EXPECT_EQ(up.steps_to(kHere + off), 0U) << off;
  EXPECT_EQ(up.steps_to(PageNo{kHere.value - 10}), 0U);
  const FaultStream down = stream_at(kHere, -2, 0);
  EXPECT_EQ(down.steps_to(PageNo{kHere.value - 2}), 1U);
  EXPECT_EQ(down.steps_to(kHere + 2), 0U);
  EXPECT_EQ(stream_at(kHere, 0, 0).steps_to(kHere), 0U);
}

TEST(FaultStream, used_whatWasPassedBy) {
  const FaultStream stream = stream_at(kHere, 1, 5);
  EXPECT_EQ(stream.used(stream.steps_to(kHere + 6)), 5U);
  EXPECT_EQ(stream.used(stream.steps_to(kHere + 3)), 2U);
  EXPECT_EQ(stream.used(stream.steps_to(kHere + 99)), 0U);
}

TEST(FaultStream, deltaTo_tooFarIsNone) {
  EXPECT_EQ(stream_at(kHere, 0, 0).delta_to(PageNo{kHere.value - 7}), -7);
  EXPECT_EQ(stream_at(PageNo{0x5'5555'5555}, 0, 0).delta_to(PageNo{0x7'ffff'ffff}), 0);
}

TEST(History, find_whoExpectsItThenWhoIsNear) {
  History history;
  EXPECT_EQ(history.find(kHere), History::kNone);
  history.streams[2] = stream_at(kHere, 10, 31);
  history.streams[5] = stream_at(kHere + 300, 0, 0);
  EXPECT_EQ(history.find(kHere + 320), 2U) << "expected, though another is near";
  EXPECT_EQ(history.find(kHere + 301), 5U);
  EXPECT_EQ(history.find(kHere + 319), 2U) << "nearest to where it is expected";
  EXPECT_EQ(history.find(kHere + 330 + History::kNear), History::kNone);
}

TEST(History, find_aWideStrideGoesOnWhereFaultsWereNotSeen) {
  History history;
  history.streams[History::kStreams + 3] = stream_at(kHere, 300, 2);
  EXPECT_EQ(history.find(kHere + 900), History::kStreams + 3) << "expected";
  EXPECT_EQ(history.find(kHere + 1500), History::kStreams + 3);
  EXPECT_EQ(history.find(kHere + 901), History::kNone) << "it has no place to be near to";
  EXPECT_EQ(history.find(kHere + 1400), History::kNone) << "not on the line";
  EXPECT_EQ(history.find(kHere + 300 * (3 + History::kSkipped + 1)), History::kNone);
}

TEST(History, join_saysWhichStrideItGoesOnWith) {
  History history;
  EXPECT_EQ(history.join(kHere), History::kNone);
  EXPECT_EQ(history.join(kHere + 5'000'000), History::kNone);
  EXPECT_EQ(history.join(kHere + 300), History::kNone);
  EXPECT_EQ(history.join(kHere + 5'000'500), History::kNone);
  const std::size_t found = history.join(kHere + 600);
  ASSERT_LT(found, History::kNone);
  EXPECT_EQ(history.streams[found].last, kHere + 300);
  EXPECT_EQ(history.streams[found].steps_to(kHere + 600), 1U);
  EXPECT_LT(history.join(kHere + 601), History::kStreams) << "it may as well be the first of a scan";
}

TEST(History, join_faultsAtRandomDoNotDriveOutWhatIsInUse) {
  History history;
  for (std::size_t i = 0; i < 4; ++i) {
    history.streams[i] = stream_at(kHere + i * 100'000, 1, 31);
    history.streams[i].credit = 31;
  }
  for (std::uint64_t i = 0; i < 100; ++i) history.join(PageNo{5'000'000 + i * i * 1000});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(history.streams[i].step.pages, 1) << i;
}

TEST(History, join_whatHasEndedGoesInTime) {
  History history;
  for (FaultStream& stream : history.streams) {
    stream = stream_at(kHere, 1, 31);
    stream.credit = 31;
  }
  for (std::uint64_t i = 0; i < 300; ++i) history.join(PageNo{5'000'000 + i * i * 1000});
  for (std::size_t i = 0; i < History::kStreams; ++i) EXPECT_EQ(history.streams[i].step.pages, 0) << i;
}

TEST(SharedHistories, of_aThreadAlwaysTheSameAndSeldomAnothers) {
  SharedHistories histories;
  for (std::uint32_t thread = 4242; thread < 4258; ++thread) {
    EXPECT_EQ(&histories.of(thread), &histories.of(thread));
    EXPECT_NE(&histories.of(thread), &histories.of(thread + 1));
  }
}

TEST(SharedHistory, with_nobodyWaitsAndNobodyMeets) {
  SharedHistory shared;
  std::uint64_t inside = 0;
  shared.with([&](History&) {
    ++inside;
    shared.with([&](History&) { ++inside; });  // in use
  });
  EXPECT_EQ(inside, 1U);
  std::uint64_t entered[2] = {};
  const auto work = [&](std::uint64_t& mine) {
    for (int i = 0; i < 100'000; ++i) {
      shared.with([&](History& history) {
        ++history.misses;
        ++mine;
      });
    }
  };
  std::thread other([&] { work(entered[0]); });
  work(entered[1]);
  other.join();
  shared.with([&](History& history) { EXPECT_EQ(history.misses, entered[0] + entered[1]); });
}

}  // namespace
}  // namespace comex

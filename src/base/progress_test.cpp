#include "base/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/units.h"

namespace comex {
namespace {

struct Screen {
  std::vector<std::string> writes;
  Clock::time_point now{};

  ProgressOutput output(bool terminal, unsigned columns = 100) {
    ProgressOutput out;
    out.terminal = terminal;
    out.columns = columns;
    out.write = [this](std::string_view text) { writes.emplace_back(text); };
    out.now = [this] { return now; };
    return out;
  }
};

TEST(ProgressTest, lines_oneEachTenPercentAndOneAtTheEnd) {
  Screen screen;
  Progress progress("move", 1000 * kMiB, screen.output(false));
  for (int i = 0; i < 1000; ++i) {
    screen.now += Millis(10);
    progress.advance(kMiB);
  }
  progress.finish();
  ASSERT_EQ(screen.writes.size(), 10U);
  EXPECT_EQ(screen.writes[0], "move: 10 %, 100 MiB of 1000 MiB, 100 MiB/s, 9.0 s left\n");
  EXPECT_EQ(screen.writes[8], "move: 90 %, 900 MiB of 1000 MiB, 100 MiB/s, 1.0 s left\n");
  EXPECT_EQ(screen.writes[9], "move: 100 %, 1000 MiB of 1000 MiB, 100 MiB/s, took 10 s\n");
}

TEST(ProgressTest, lines_aBigStepPrintsOnce) {
  Screen screen;
  Progress progress("move", 100 * kMiB, screen.output(false));
  screen.now += Millis(1000);
  progress.advance(75 * kMiB);
  progress.advance(4 * kMiB);
  ASSERT_EQ(screen.writes.size(), 1U);
  screen.now += Millis(1000);
  progress.advance(2 * kMiB);
  EXPECT_EQ(screen.writes.size(), 2U);
}

TEST(ProgressTest, lines_aShortJobPrintsOnlyTheLast) {
  Screen screen;
  Progress progress("move", 100, screen.output(false));
  for (int i = 0; i < 100; ++i) {
    screen.now += Millis(3);
    progress.advance(1);
  }
  EXPECT_TRUE(screen.writes.empty());
  progress.finish();
  ASSERT_EQ(screen.writes.size(), 1U);
  EXPECT_EQ(screen.writes[0].rfind("move: 100 %", 0), 0U);
}

TEST(ProgressTest, terminal_redrawsInPlaceAtMostTenTimesASecond) {
  Screen screen;
  {
    Progress progress("move", 1000 * kMiB, screen.output(true));
    for (int i = 0; i < 1000; ++i) {
      screen.now += Millis(1);
      progress.advance(kMiB);
    }
    EXPECT_GE(screen.writes.size(), 9U);
    EXPECT_LE(screen.writes.size(), 11U);
    for (const auto& text : screen.writes) {
      EXPECT_EQ(text.front(), '\r');
      EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0);
    }
    progress.finish();
    EXPECT_EQ(screen.writes.back().back(), '\n');
    EXPECT_NE(screen.writes.back().find("100 %"), std::string::npos);
    EXPECT_NE(screen.writes.back().find("####"), std::string::npos);
  }
  EXPECT_NE(screen.writes.back(), "\n") << "a finished bar has ended its line";
}

TEST(ProgressTest, terminal_anAbandonedBarEndsItsLine) {
  Screen screen;
  {
    Progress progress("move", 10 * kMiB, screen.output(true));
    progress.advance(kMiB);
  }
  EXPECT_EQ(screen.writes.back(), "\n");
}

TEST(ProgressTest, terminal_neverWrapsANarrowOne) {
  for (const unsigned columns : {20U, 60U, 80U, 200U}) {
    Screen screen;
    Progress progress("move", 1000 * kMiB, screen.output(true, columns));
    screen.now += Millis(3000);
    progress.advance(kMiB);
    ASSERT_EQ(screen.writes.size(), 1U);
    EXPECT_LE(screen.writes[0].size(), columns + 4) << "carriage return and erase-to-end take no column";
    progress.finish();
  }
}

TEST(ProgressTest, advance_pastTheTotalStaysAtHundred) {
  Screen screen;
  Progress progress("move", 10, screen.output(false));
  progress.advance(25);
  progress.finish();
  EXPECT_NE(screen.writes.back().find("100 %"), std::string::npos);
}

TEST(ProgressTest, total_zeroIsDone) {
  Screen screen;
  Progress progress("move", 0, screen.output(false));
  progress.finish();
  progress.finish();
  ASSERT_EQ(screen.writes.size(), 1U);
  EXPECT_NE(screen.writes[0].find("100 %"), std::string::npos);
}

TEST(ProgressTest, advance_fromManyThreads) {
  Screen screen;
  auto output = screen.output(false);
  output.now = Clock::now;
  Progress progress("move", 4 * 10'000, output);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&progress] {
      for (int i = 0; i < 10'000; ++i) progress.advance(1);
    });
  }
  threads.clear();
  progress.finish();
  EXPECT_LE(screen.writes.size(), 10U);
  EXPECT_NE(screen.writes.back().find("100 %"), std::string::npos);
}

}  // namespace
}  // namespace comex

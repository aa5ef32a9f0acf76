#include "run/keeper/progress_writer.h"

#include <gtest/gtest.h>

#include <string>

namespace comex {
namespace {

TEST(ProgressWriter, workBeginsEndsAndBeginsAnew) {
  RunProgress progress;
  ProgressWriter writer(progress, std::string(200, 'x'), 2);
  EXPECT_EQ(std::string(progress.name.data()), std::string(63, 'x'));
  auto now = Clock::now();
  std::vector<MemberStatus> nodes(4);
  for (MemberStatus& node : nodes) {
    node.state = MemberState::up;
    node.in_use = 10;
  }
  nodes[1].state = MemberState::aside;
  nodes[2].state = MemberState::aside;
  nodes[2].in_use = 0;
  KeeperStatus status;
  const auto write = [&](std::uint64_t thin, std::uint64_t mended, std::uint64_t to_move, std::uint64_t moved) {
    status.thin = thin;
    status.mended = mended;
    status.to_move = to_move;
    status.moved = moved;
    writer.write(status, nodes, now);
    now += Millis(1'000);
  };
  write(0, 500, 0, 0);
  EXPECT_EQ(progress.to_copy.load(), 0U);
  write(300, 500, 0, 0);
  EXPECT_EQ(progress.to_copy.load(), 300U);
  write(100, 700, 64, 10);
  EXPECT_EQ(progress.copied.load(), 200U);
  EXPECT_EQ(progress.to_copy.load(), 300U);
  EXPECT_EQ(progress.moved.load(), 10U);
  EXPECT_EQ(progress.to_move.load(), 74U);
  EXPECT_EQ(progress.rate.load(), 210U);
  EXPECT_EQ(progress.nodes_away.load(), 1U) << "of one that has nothing nobody wants to know";
  EXPECT_EQ(progress.held.load(), 30U);
  write(0, 800, 0, 74);
  EXPECT_EQ(progress.copied.load(), progress.to_copy.load());
  write(50, 800, 10, 74);
  EXPECT_EQ(progress.copied.load(), 0U);
  EXPECT_EQ(progress.to_copy.load(), 50U);
  EXPECT_EQ(progress.to_move.load(), 10U);
}

TEST(ProgressWriter, whatIsHeldForNoPage) {
  KeeperStatus status;
  status.used = 100;
  status.free = 30;
  status.dead = 20;
  RunProgress progress;
  ProgressWriter(progress, "x", 1).write(status, {}, Clock::now());
  EXPECT_EQ(progress.pages.load(), 100U);
  EXPECT_EQ(progress.free.load(), 30U);
  EXPECT_EQ(progress.dead.load(), 20U);
}

TEST(ProgressWriter, whatTheDiskHas) {
  KeeperStatus status;
  status.used = 100;
  status.on_disk = 40;
  status.backup.behind = 7;
  for (const std::uint32_t copies : {1U, 2U}) {
    RunProgress progress;
    ProgressWriter(progress, "x", copies).write(status, {}, Clock::now());
    EXPECT_EQ(progress.pages.load(), 100U);
    EXPECT_EQ(progress.on_disk.load(), 40U);
    EXPECT_EQ(progress.behind.load(), copies == 1 ? 7U : 0U) << "other copies are no business of the disk";
  }
}

}  // namespace
}  // namespace comex

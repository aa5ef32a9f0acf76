#include "pool/member.h"

#include <gtest/gtest.h>

#include <thread>

#include "pool/kept_member_test.h"

namespace comex {
namespace {

using testing_support::eventually;
using testing_support::FakeNode;
using testing_support::KeptMember;
using testing_support::page_of;
using testing_support::quick_config;

TEST(Member, beforeTheFirstLink_everythingFailsAtOnce) {
  Member member(NodeId{2}, Url{}, quick_config());
  EXPECT_EQ(member.state(), MemberState::connecting);
  EXPECT_FALSE(member.take(1));
  EXPECT_FALSE(member.usable());
  auto page = page_of(0);
  const Segment segment{FrameNo{0}, 1, page.data()};
  Transfer transfer(Direction::read, {&segment, 1});
  member.submit(NodeId{2}, transfer);
  ASSERT_TRUE(transfer.done());
  EXPECT_EQ(member.wait(NodeId{2}, transfer), Errc::disconnected);
  Transfer stranger(Direction::read, {&segment, 1});
  EXPECT_EQ(member.move(NodeId{1}, stranger), Errc::fenced);
  EXPECT_EQ(member.wait_until_decided(NodeId{2}, Deadline(Millis(1))), Errc::timeout);
}

TEST(Member, putBack_isAtHandAgain) {
  FakeNode node;
  KeptMember kept(node);
  kept.start();
  const auto run = kept.take(64).value();
  ASSERT_TRUE(eventually([&] { return kept->at_hand() == 2048 - 64; }));
  kept->put_back(run.from(10));
  EXPECT_EQ(kept->at_hand(), 2048U - 10);
  EXPECT_EQ(kept->status().in_use, 10U);
  EXPECT_EQ(node.calls(wire::Type::give_back), 0);
}

TEST(Member, wait_endsWhenTheLinkIsReplaced) {
  FakeNode node(8192, Millis(60'000));
  KeptMember kept(node);
  kept.start();
  const auto run = kept.take(2).value();
  node.hold_transfers(true);
  auto page = page_of(0);
  const Segment segment{run.first, 1, page.data()};
  Transfer waited(Direction::read, {&segment, 1});
  Transfer forgotten(Direction::read, {&segment, 1});
  kept->submit(run.node, waited);
  kept->submit(run.node, forgotten);
  EXPECT_FALSE(waited.done());
  std::thread breaker([&] { node.drop_links(); });
  EXPECT_EQ(kept->wait(run.node, waited), Errc::disconnected);
  breaker.join();
  ASSERT_EQ(kept->wait_until_decided(run.node, Deadline(std::chrono::seconds(60))), Errc::ok);
  // On the new link by now: the one nobody waited for is complete all the same.
  EXPECT_EQ(kept->wait(run.node, forgotten), Errc::disconnected);
}

// Nobody but the one who waits touches the link: it must not take until the next beat to find it broken.
TEST(Member, waitUntilDecided_noticesTheBrokenLinkItself) {
  FakeNode node(8192, Millis(3'600'000));
  KeptMember kept(node);
  kept.start();
  ASSERT_TRUE(kept.take(1));
  ASSERT_TRUE(eventually([&] { return kept->at_hand() == 2048 - 1; }));
  node.drop_links();
  EXPECT_EQ(kept->wait_until_decided(kept->id(), Deadline(std::chrono::seconds(60))), Errc::ok);
  EXPECT_EQ(node.connects(), 2);
}

TEST(Member, failedTransfer_stopsHandingOutFramesUntilHeardFrom) {
  FakeNode node(8192, Millis(60'000));
  KeptMember kept(node);
  kept.start();
  const auto run = kept.take(1).value();
  node.slow_calls(Millis(2500));
  node.fail_transfers(Errc::io);
  EXPECT_EQ(kept.write(run.at(0), page_of(1)), Errc::io);
  EXPECT_FALSE(kept->take(1));
  node.fail_transfers(Errc::ok);
  node.slow_calls(Millis(0));
  EXPECT_TRUE(kept.take(1)) << "a beat clears it";
}

// Threads read and write at full speed while the link breaks again and again: every page read back is right, every
// error is one of a broken link, and nothing hangs.
TEST(Member, move_whileLinksComeAndGo) {
  FakeNode node(8192, Millis(60'000));
  KeptMember kept(node);
  kept.start();
  std::atomic<bool> stop{false};
  std::atomic<int> moved{0};
  std::vector<std::thread> threads;
  for (std::uint8_t t = 1; t <= 3; ++t) {
    threads.emplace_back([&, t] {
      const auto run = kept.take(1).value();
      const auto where = run.at(0);
      std::vector<std::byte> page;
      bool written = false;
      while (!stop) {
        const Errc result = written ? kept.read(where, page) : kept.write(where, page_of(t));
        if (result == Errc::ok) {
          if (written) {
            EXPECT_EQ(page, page_of(t));
          }
          written = true;
          ++moved;
        } else {
          EXPECT_EQ(result, Errc::disconnected);
          EXPECT_EQ(kept->wait_until_decided(where.node, Deadline(std::chrono::seconds(60))), Errc::ok);
        }
      }
    });
  }
  for (int i = 0; i < 30; ++i) {
    const int before = moved;
    EXPECT_TRUE(eventually([&] { return moved > before + 20; }));
    node.drop_links();
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(node.begun(), 1);
}

}  // namespace
}  // namespace comex

// A client that asks for as much as it can, of those things that are allowed, does not take the node away from others.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/node.h"
#include "support/pages.h"
#include "support/raw_client.h"

namespace comex::test {
namespace {

// The longest of a number of beats: what a client's lease and its time-outs depend on.
Millis longest_beat(Link& link, Millis for_how_long) {
  Nanos longest{0};
  const Deadline end(for_how_long);
  while (!end.passed()) {
    const auto start = Clock::now();
    EXPECT_TRUE(link.beat());
    longest = std::max<Nanos>(longest, Clock::now() - start);
  }
  return std::chrono::duration_cast<Millis>(longest);
}

// Far below the 3 s after which a client gives a control call up, and far above what a loaded machine does to a call.
constexpr Millis kTolerable{750};

class Fairness : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer makes a grant so slow that the times mean nothing";
#endif
  }
};

// Large grants are zeroed by the node. Asking for one and returning it costs the asker two small messages.
TEST_F(Fairness, grants_and_returns_in_a_row_do_not_hold_up_others) {
  auto config = TestNode::config();
  config.memory = 512 << 20;
  TestNode node(Over::tcp, config);
  const auto good = node.connect(Over::tcp);
  RawSession greedy(node, Over::tcp);
  const auto extents = greedy.grant(1 << 16, 9);
  ASSERT_FALSE(extents.empty());
  ASSERT_EQ(greedy.give_back(extents), Errc::ok);
  wire::Bytes round = request(wire::Type::grant, 1, wire::encode(wire::Grant{1 << 16, 9}));
  const auto back = request(wire::Type::give_back, 2, wire::encode_extents(extents));
  round.insert(round.end(), back.begin(), back.end());
  std::jthread asking([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && greedy.control->send(round, Millis(100))) greedy.control->drain();
  });
  EXPECT_LT(longest_beat(*good, Millis(1500)), kTolerable);
}

// The lanes of a client hold its lock shared, all the time and all of them; the ledger needs it alone to take frames
// back. It must get it, or everybody else waits for the ledger.
TEST_F(Fairness, busy_lanes_do_not_keep_the_ledger_from_their_client) {
  auto config = TestNode::config();
  config.lane_threads = 4;
  TestNode node(Over::tcp, config);
  const auto good = node.connect(Over::tcp);
  RawSession busy(node, Over::tcp);
  const auto frames = busy.grant(256, 8);
  ASSERT_EQ(frames.size(), 1U);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([lane = busy.join(wire::Purpose::lane), &frames](const std::stop_token& stop) mutable {
      const auto ask = request(wire::Type::read, 1, segments(frames[0]));
      while (!stop.stop_requested()) {
        if (!lane.send(ask, Millis(10))) lane.drain();
        lane.drain();
      }
    });
  }
  Nanos longest{0};
  const Deadline end(Millis(1500));
  while (!end.passed()) {
    const auto start = Clock::now();
    const auto more = busy.grant(8, 3);
    ASSERT_FALSE(more.empty());
    ASSERT_EQ(busy.give_back(more), Errc::ok);
    ASSERT_TRUE(good->beat());
    longest = std::max<Nanos>(longest, Clock::now() - start);
  }
  EXPECT_LT(std::chrono::duration_cast<Millis>(longest), kTolerable);
}

// Control calls without end, on many connections of one client.
TEST_F(Fairness, a_flood_of_control_calls_does_not_hold_up_others) {
  TestNode node;
  const auto good = node.connect(Over::shm);
  RawSession noisy(node, Over::tcp);
  wire::Bytes many;
  for (std::uint32_t i = 0; i < 100; ++i) {
    const auto one = request(i % 2 == 0 ? wire::Type::status : wire::Type::beat, i);
    many.insert(many.end(), one.begin(), one.end());
  }
  std::jthread asking([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && noisy.control->send(many, Millis(100))) noisy.control->drain();
  });
  EXPECT_LT(longest_beat(*good, Millis(700)), kTolerable);
}

// Descriptors that nobody takes out of a socket count against the node. One client must not use them all up.
TEST_F(Fairness, descriptors_that_a_client_does_not_take_leave_enough_for_others) {
  TestNode node;
  RawSession greedy(node, Over::shm);
  const auto frames = greedy.grant(8, 3);
  ASSERT_FALSE(frames.empty());
  const wire::Map all_the_same{std::vector<std::uint32_t>(wire::kMaxSlabsPerMap, frames[0].first.value / 512)};
  const auto ask = request(wire::Type::map, 1, wire::encode(all_the_same));
  for (int i = 0; i < 2000 && greedy.control->send(ask, Millis(20)); ++i) {
  }
  const auto good = node.connect(Over::shm);
  const Extent own = granted_extent(*good, 512);
  Pages pages(1, 121);
  EXPECT_EQ(write(*good, Extent{own.first, 1}, pages), Errc::ok);
}

}  // namespace
}  // namespace comex::test

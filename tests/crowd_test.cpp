// Many at once: clients that all get their due, and strangers who take up connections without keeping anybody out.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "support/node.h"
#include "support/pages.h"
#include "support/raw_client.h"
#include "support/wait.h"

namespace comex::test {
namespace {

// Each writes its own pattern, waits until all have, and finds it again.
TEST(Crowd, two_hundred_clients_at_once) {
  constexpr unsigned kClients = 200;
  constexpr std::uint32_t kFrames = 64;
  auto config = TestNode::config();
  config.memory = 256 << 20;  // a client on shared memory has slabs of its own, 2 MiB at least
  config.lease = Millis(80'000);
  TestNode node(Over::tcp, config);
  std::atomic<unsigned> good{0};
  std::atomic<unsigned> refused{0};
  std::barrier all_here(kClients);
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < kClients; ++i) {
      threads.emplace_back([&, i] {
        const Over over = i % 2 == 0 ? Over::shm : Over::tcp;
        auto options = node.options(over);
        options.lanes = 1;
        auto link = comex::connect(node.url(over), options);
        auto grant = link ? (*link)->grant(kFrames, 6) : Expected<wire::GrantReply>(link.error());
        if (!grant || grant->extents.size() != 1) {
          ++refused;
          all_here.arrive_and_drop();
          return;
        }
        const Extent frames = grant->extents[0];
        Pages pages(kFrames, i + 1);
        bool fine = write(**link, frames, pages) == Errc::ok;
        all_here.arrive_and_wait();
        pages.clear();
        fine = fine && read(**link, frames, pages) == Errc::ok && pages.are(i + 1) && (*link)->beat();
        // Half say goodbye, half just go.
        if (i % 4 < 2) (*link)->bye();
        if (fine) ++good;
      });
    }
  }
  EXPECT_EQ(refused, 0U);
  EXPECT_EQ(good, kClients);
  // Those that did not say goodbye have their lease, as their process lives.
  EXPECT_TRUE(wait_until([&] { return node.clients() == kClients / 2; })) << node.clients();
  EXPECT_TRUE(wait_until([&] { return node.free_frames() == node.frames() - kClients / 2 * kFrames; }));
}

TEST(Crowd, all_frames_come_back) {
  constexpr unsigned kClients = 60;
  auto config = TestNode::config();
  config.lease = Millis(1000);
  config.memory = 128 << 20;
  TestNode node(Over::tcp, config);
  {
    std::vector<std::unique_ptr<Link>> links;
    for (unsigned i = 0; i < kClients; ++i) {
      const Over over = i % 2 == 0 ? Over::shm : Over::tcp;
      auto options = node.options(over);
      options.lanes = 1;
      links.push_back(node.connect(over, options));
      granted(*links.back(), 32, 5);
    }
    EXPECT_EQ(node.free_frames(), node.frames() - kClients * 32);
  }
  EXPECT_TRUE(node.all_free_soon());
  EXPECT_EQ(node.clients(), 0U);
}

TEST(Crowd, the_limit_of_clients_is_told) {
  auto config = TestNode::config();
  config.max_clients = 3;
  TestNode node(Over::tcp, config);
  std::vector<std::unique_ptr<Link>> links;
  for (int i = 0; i < 3; ++i) links.push_back(node.connect(Over::tcp));
  const auto refused = comex::connect(node.url(Over::tcp), node.options(Over::tcp));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy);
  const auto heir = links[0]->share();
  ASSERT_FALSE(heir);
  EXPECT_EQ(heir.error().code, Errc::busy);
  links[0]->bye();
  EXPECT_TRUE(node.connect(Over::tcp)->beat());
}

// --- strangers ---

class HalfOpen : public testing::TestWithParam<Over> {
 protected:
  // Connections that are made and say nothing: the node has to wait for each.
  void open(Over over, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      peers_.push_back(RawPeer::dial(node_.url(over)));
      // The Unix socket's queue is short and connecting does not wait: let the node take them as they come.
      if (over == Over::shm && i % 64 == 63) std::this_thread::yield();
    }
  }
  // A good client must get in at once, and again and again: a lucky moment is not enough.
  void expect_prompt() {
    for (int i = 0; i < 5; ++i) {
      const auto start = Clock::now();
      auto options = node_.options(GetParam());
      options.lanes = 1;
      auto link = comex::connect(node_.url(GetParam()), options);
      ASSERT_TRUE(link) << link.error().message;
      EXPECT_LT(Clock::now() - start, Millis(2000));
      ASSERT_TRUE((*link)->grant(8, 3));
      (*link)->bye();
    }
  }

  TestNode node_;
  std::vector<RawPeer> peers_;
};

INSTANTIATE_TEST_SUITE_P(Over, HalfOpen, testing::Values(Over::shm, Over::tcp), testing::PrintToStringParamName());

TEST_P(HalfOpen, a_thousand_connections_that_say_nothing_keep_nobody_out) {
  open(Over::tcp, 1000);
  expect_prompt();
}

// Somebody on the network must not be able to keep programs of this very machine from their memory.
TEST_P(HalfOpen, a_crowd_on_one_socket_keeps_nobody_out_of_the_other) {
  open(GetParam() == Over::tcp ? Over::shm : Over::tcp, 300);
  expect_prompt();
}

// Whoever has come in already is not thrown out by the crowd.
TEST_P(HalfOpen, a_crowd_does_not_disturb_those_inside) {
  const auto link = node_.connect(GetParam());
  const Extent frames = granted_extent(*link, 8);
  Pages pages(8, 111);
  open(Over::tcp, 1000);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(write(*link, frames, pages), Errc::ok);
    ASSERT_TRUE(link->beat());
  }
}

}  // namespace
}  // namespace comex::test

// How a lane ends, seen from the keeper: on real TCP connections, for it is TCP's states that count.
#include "run/keeper/keeper_lanes.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <thread>

#include "base/wait_ready.h"
#include "fabric/socket.h"

namespace comex {
namespace {

class LaneEndTest : public ::testing::Test {
 protected:
  LaneEndTest() {
    auto listener = listen_tcp("127.0.0.1:0").value();
    lane_ = connect_tcp("127.0.0.1", listener.port, patience()).value();
    EXPECT_TRUE(wait_ready(listener.socket.get(), POLLIN, patience()));
    node_ = Fd(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  static Deadline patience() { return Deadline(std::chrono::seconds(20)); }
  LaneEnd end_soon() {
    for (const auto deadline = patience(); !deadline.passed();) {
      const LaneEnd end = see_lane_end(lane_.get());
      if (end != LaneEnd::waiting) return end;
      (void)wait_ready(lane_.get(), POLLIN, Deadline(Millis(10)));
    }
    return LaneEnd::waiting;
  }
  // All that came, up to the end of the stream.
  std::size_t read_all() {
    std::array<char, 4096> bytes;
    std::size_t sum = 0;
    for (ssize_t got = 0; (got = ::recv(node_.get(), bytes.data(), bytes.size(), 0)) > 0;) {
      sum += static_cast<std::size_t>(got);
    }
    return sum;
  }
  Fd lane_;
  Fd node_;
};

TEST_F(LaneEndTest, waits_until_the_node_has_read_everything_and_closed) {
  const std::string written(100'000, 'x');
  ASSERT_EQ(::send(lane_.get(), written.data(), written.size(), 0), static_cast<ssize_t>(written.size()));
  EXPECT_EQ(begin_lane_end(lane_.get()), LaneEnd::waiting);
  ASSERT_EQ(::send(node_.get(), "reply", 5, 0), 5);
  EXPECT_EQ(see_lane_end(lane_.get()), LaneEnd::waiting);
  EXPECT_EQ(read_all(), written.size());
  EXPECT_EQ(see_lane_end(lane_.get()), LaneEnd::waiting);
  node_.reset();
  EXPECT_EQ(end_soon(), LaneEnd::clean);
}

// The keeper serves it itself: see run/keeper/lane_relay.h.
class RelayedLaneEndTest : public LaneEndTest {
 protected:
  RelayedLaneEndTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    lane_ = Fd(ends[0]);
    node_ = Fd(ends[1]);
  }
};

TEST_F(RelayedLaneEndTest, waits_until_everything_has_been_read) {
  ASSERT_EQ(::send(lane_.get(), "a write", 7, 0), 7);
  EXPECT_EQ(begin_lane_end(lane_.get()), LaneEnd::waiting);
  EXPECT_EQ(read_all(), 7U);
  EXPECT_EQ(see_lane_end(lane_.get()), LaneEnd::waiting);
  node_.reset();
  EXPECT_EQ(end_soon(), LaneEnd::clean);
}

TEST_F(RelayedLaneEndTest, what_the_process_has_shut_is_not_to_be_seen) {
  ASSERT_EQ(::send(lane_.get(), "a write", 7, 0), 7);
  ASSERT_EQ(::shutdown(lane_.get(), SHUT_RDWR), 0);
  EXPECT_EQ(begin_lane_end(lane_.get()), LaneEnd::unclean);
}

TEST_F(LaneEndTest, a_reset_is_an_end) {
  ASSERT_EQ(::send(lane_.get(), "unread", 6, 0), 6);
  ASSERT_TRUE(wait_ready(node_.get(), POLLIN, patience()));
  EXPECT_EQ(begin_lane_end(lane_.get()), LaneEnd::waiting);
  node_.reset();  // with bytes unread: the connection is reset
  EXPECT_EQ(end_soon(), LaneEnd::clean);
}

TEST_F(LaneEndTest, a_lane_that_the_node_closed_is_over) {
  node_.reset();
  ASSERT_TRUE(wait_ready(lane_.get(), POLLIN, patience()));
  EXPECT_EQ(begin_lane_end(lane_.get()), LaneEnd::clean);
}

// recv() says "end" at once on such a socket, whatever the node has still to read.
TEST_F(LaneEndTest, a_lane_that_its_process_has_shut_tells_nothing) {
  ASSERT_EQ(::send(lane_.get(), "late write", 10, 0), 10);
  ASSERT_EQ(::shutdown(lane_.get(), SHUT_RDWR), 0);
  EXPECT_EQ(begin_lane_end(lane_.get()), LaneEnd::unclean);
}

TEST_F(LaneEndTest, no_lane_at_all_tells_nothing) {
  EXPECT_EQ(begin_lane_end(-1), LaneEnd::unclean);
}

}  // namespace
}  // namespace comex

// Peers that take their time: whoever begins a message must finish it, and nobody's slowness is anybody else's problem.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <deque>

#include "support/node.h"
#include "support/pages.h"
#include "support/raw_client.h"

namespace comex::test {
namespace {

constexpr Millis kShort{300};
// A connection that is not cut off by then is not cut off: many times the time-out, and the node's tick.
constexpr Millis kMuchLonger{6000};

class SlowPeer : public testing::TestWithParam<Over> {
 protected:
  static ServerConfig config() {
    auto config = TestNode::config();
    config.handshake_timeout = kShort;
    config.stall_timeout = kShort;
    return config;
  }
  // A byte every 20 ms until the node has enough. True if it closed the connection.
  static bool dribble(RawPeer& peer, wire::ByteView bytes) {
    const Deadline deadline(kMuchLonger);
    for (std::size_t at = 0; !deadline.passed(); ++at) {
      if (peer.closed(Millis(20))) return true;
      // When all is sent it begins again: a peer need not run out.
      if (!peer.send(bytes.subspan(at % bytes.size(), 1))) return true;
    }
    return false;
  }
  void TearDown() override {
    Pages pages(8, 101);
    ASSERT_EQ(write(*good_, held_, pages), Errc::ok);
    EXPECT_TRUE(good_->beat());
  }

  TestNode node_{GetParam(), config()};
  std::unique_ptr<Link> good_ = node_.connect(GetParam());
  Extent held_ = granted_extent(*good_, 8);
};

INSTANTIATE_TEST_SUITE_P(Over, SlowPeer, testing::Values(Over::shm, Over::tcp, Over::tls),
                         testing::PrintToStringParamName());

TEST_P(SlowPeer, silence_instead_of_a_handshake_is_cut_off) {
  auto peer = RawPeer::dial(node_.url(GetParam()));
  EXPECT_TRUE(peer.closed(kMuchLonger));
}

TEST_P(SlowPeer, a_dribbled_handshake_is_cut_off) {
  // Over TLS these are not even the bytes of a handshake; something that looks like one keeps the node waiting.
  wire::Bytes bytes = request(wire::Type::hello, 1, wire::encode(hello(wire::Purpose::begin)));
  if (GetParam() == Over::tls) {
    bytes = {std::byte{22}, std::byte{3}, std::byte{1}, std::byte{2}, std::byte{0}, std::byte{1}, std::byte{0}};
    bytes.resize(517);
  }
  auto peer = RawPeer::dial(node_.url(GetParam()));
  const auto start = Clock::now();
  EXPECT_TRUE(dribble(peer, bytes));
  EXPECT_GE(Clock::now() - start, kShort / 2);
}

TEST_P(SlowPeer, a_handshake_that_stops_half_way_is_cut_off) {
  if (GetParam() == Over::tls) GTEST_SKIP() << "dial() speaks plain bytes";
  auto peer = RawPeer::dial(node_.url(GetParam()));
  ASSERT_TRUE(peer.call(wire::Type::hello, wire::encode(hello(wire::Purpose::begin))));
  EXPECT_TRUE(peer.closed(kMuchLonger)) << "no proof came";
}

TEST_P(SlowPeer, a_control_call_that_stops_half_way_is_cut_off) {
  const auto call = request(wire::Type::grant, 1, wire::encode(wire::Grant{8, 3}));
  for (const std::size_t sent : {std::size_t{1}, wire::Header::kBytes, call.size() - 1}) {
    RawSession session(node_, GetParam());
    ASSERT_TRUE(session.control->send(wire::ByteView(call).first(sent)));
    EXPECT_TRUE(session.control->closed(kMuchLonger)) << "after " << sent << " bytes";
  }
}

TEST_P(SlowPeer, a_dribbled_control_call_is_cut_off) {
  RawSession session(node_, GetParam());
  const std::vector<Extent> extents(wire::kMaxExtents, Extent{FrameNo{0}, 1});
  EXPECT_TRUE(dribble(*session.control, request(wire::Type::give_back, 1, wire::encode_extents(extents))));
}

// Asks for status as fast as it can and reads none of the answers.
TEST_P(SlowPeer, a_peer_that_does_not_read_is_cut_off) {
  RawSession session(node_, GetParam());
  std::vector<std::unique_ptr<Link>> listed;  // so that an answer has some length
  for (int i = 0; i < 20; ++i) listed.push_back(node_.connect(Over::shm));
  const auto ask = request(wire::Type::status, 1);
  // Until neither side takes any more.
  while (session.control->send(ask, Millis(50))) {
  }
  EXPECT_TRUE(session.control->cut_off(kMuchLonger));
}

// Between messages a client may be silent for as long as its lease; observers for ever.
TEST_P(SlowPeer, an_idle_connection_is_left_alone) {
  RawSession session(node_, GetParam());
  EXPECT_FALSE(session.control->closed(3 * kShort));
  const auto reply = session.control->call(wire::Type::beat);
  EXPECT_TRUE(reply && reply->status() == Errc::ok);
}

// --- lanes ---

class SlowLane : public SlowPeer {};

INSTANTIATE_TEST_SUITE_P(Over, SlowLane, testing::Values(Over::tcp, Over::tls), testing::PrintToStringParamName());

TEST_P(SlowLane, a_request_that_stops_half_way_is_cut_off) {
  RawSession session(node_, GetParam());
  const auto own = session.grant(8, 3);
  Pages pages(8, 102);
  const auto whole = request(wire::Type::write, 1, segments(own.at(0)), std::span(pages.data(), pages.size()));
  const std::size_t before_pages = whole.size() - pages.size();
  for (const std::size_t sent :
       {std::size_t{1}, wire::Header::kBytes, before_pages, before_pages + 5, whole.size() - 1}) {
    auto lane = session.join(wire::Purpose::lane);
    ASSERT_TRUE(lane.send(wire::ByteView(whole).first(sent)));
    EXPECT_TRUE(lane.closed(kMuchLonger)) << "after " << sent << " bytes";
  }
}

TEST_P(SlowLane, a_dribbled_write_is_cut_off) {
  RawSession session(node_, GetParam());
  const auto own = session.grant(8, 3);
  auto lane = session.join(wire::Purpose::lane);
  Pages pages(8, 103);
  EXPECT_TRUE(dribble(lane, request(wire::Type::write, 1, segments(own.at(0)), std::span(pages.data(), pages.size()))));
}

TEST_P(SlowLane, a_reader_that_does_not_read_is_cut_off) {
  RawSession session(node_, GetParam());
  const auto own = session.grant(256, 8);
  auto lane = session.join(wire::Purpose::lane);
  const auto ask = request(wire::Type::read, 1, segments(own.at(0)));
  while (lane.send(ask, Millis(50))) {
  }
  EXPECT_TRUE(lane.cut_off(kMuchLonger)) << "the node waits for somebody who does not read";
}

// Many slow lanes at once: the good client's pages go past them.
TEST_P(SlowLane, slow_lanes_do_not_slow_the_others) {
  RawSession session(node_, GetParam());
  const auto own = session.grant(256, 8);
  std::deque<RawPeer> lanes;
  for (int i = 0; i < 32; ++i) {
    lanes.push_back(session.join(wire::Purpose::lane));
    if (i % 2 == 0) {
      ASSERT_TRUE(lanes.back().send(request(wire::Type::read, 1, segments(own.at(0)))));
    } else {
      const auto part = request(wire::Type::write, 1, segments(own.at(0)), {});
      auto bytes = part;
      const std::uint32_t payload = 256 * kPageSize;
      std::memcpy(bytes.data() + offsetof(wire::Header, payload), &payload, sizeof payload);
      ASSERT_TRUE(lanes.back().send(bytes));
    }
  }
  Pages pages(8, 104);
  const auto start = Clock::now();
  for (int i = 0; i < 50; ++i) ASSERT_EQ(write(*good_, held_, pages), Errc::ok);
  EXPECT_LT(Clock::now() - start, Millis(3000));
}

}  // namespace
}  // namespace comex::test

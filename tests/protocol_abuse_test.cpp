// Peers that break the protocol: the node answers or closes, loses nothing, and serves the others.
#include <gtest/gtest.h>

#include <random>

#include "support/node.h"
#include "support/pages.h"
#include "support/raw_client.h"

namespace comex::test {
namespace {

wire::Bytes header_bytes(std::uint32_t body, std::uint16_t type, std::uint32_t payload) {
  wire::Header header;
  header.body = body;
  header.type = type;
  header.tag = 1;
  header.payload = payload;
  wire::Writer w;
  w.put(wire::ByteView(std::as_bytes(std::span(&header, 1))));
  return w.take();
}

std::uint16_t number(wire::Type type) {
  return static_cast<std::uint16_t>(type);
}

class ProtocolAbuse : public testing::TestWithParam<Over> {
 protected:
  void SetUp() override { ASSERT_EQ(write(*good_, held_, pages_), Errc::ok); }
  // Whatever was sent, a good client's session goes on and a new one can come in.
  void TearDown() override {
    pages_.clear();
    ASSERT_EQ(read(*good_, held_, pages_), Errc::ok);
    EXPECT_TRUE(pages_.are(91));
    EXPECT_TRUE(node_.connect(GetParam())->grant(8, 3));
  }

  TestNode node_{GetParam()};
  std::unique_ptr<Link> good_ = node_.connect(GetParam());
  Extent held_ = granted_extent(*good_, 8);
  Pages pages_{8, 91};
};

INSTANTIATE_TEST_SUITE_P(Over, ProtocolAbuse, testing::Values(Over::shm, Over::tcp, Over::tls),
                         testing::PrintToStringParamName());

TEST_P(ProtocolAbuse, garbage_instead_of_a_handshake) {
  std::mt19937_64 random(1);
  for (std::size_t length : {1U, 15U, 16U, 17U, 100U, 5000U, 300'000U}) {
    auto peer = RawPeer::dial(node_.url(GetParam()));
    wire::Bytes garbage(length);
    for (auto& byte : garbage) byte = static_cast<std::byte>(random());
    (void)peer.send(garbage);
    peer.stream().shut();
  }
  auto peer = RawPeer::dial(node_.url(GetParam()));
  ASSERT_TRUE(peer.send("GET / HTTP/1.1\r\nHost: node\r\n\r\n"));
  EXPECT_TRUE(peer.closed());
}

TEST_P(ProtocolAbuse, garbage_after_the_handshake) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 20; ++round) {
    RawSession session(node_, GetParam());
    wire::Bytes garbage(1000);
    for (auto& byte : garbage) byte = static_cast<std::byte>(random());
    (void)session.control->send(garbage);
    EXPECT_TRUE(session.control->closed());
  }
}

// Well-formed headers, random bodies: every decoder gets its share.
TEST_P(ProtocolAbuse, random_bodies_of_control_calls) {
  std::mt19937_64 random(3);
  RawSession session(node_, GetParam());
  for (int round = 0; round < 400; ++round) {
    const auto type = static_cast<wire::Type>(number(wire::Type::hello) + random() % 11);
    if (type == wire::Type::bye) continue;
    wire::Bytes body(random() % 64);
    for (auto& byte : body) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    const auto reply = session.control->call(type, body);
    ASSERT_TRUE(reply) << "round " << round << " type " << number(type);
    session.control->fds.clear();
  }
}

TEST_P(ProtocolAbuse, bodies_beyond_the_limits) {
  // Before the handshake 512 bytes are the limit, after it 64 KiB. Not a byte of the body needs to come.
  auto stranger = RawPeer::dial(node_.url(GetParam()));
  if (GetParam() != Over::tls) {
    ASSERT_TRUE(stranger.send(header_bytes(wire::kMaxHandshakeBody + 1, number(wire::Type::hello), 0)));
    EXPECT_TRUE(stranger.closed());
  }
  for (const std::uint32_t body : {wire::kMaxBody + 1, UINT32_MAX}) {
    RawSession session(node_, GetParam());
    ASSERT_TRUE(session.control->send(header_bytes(body, number(wire::Type::grant), 0)));
    EXPECT_TRUE(session.control->closed());
  }
  // The largest that is allowed is read, and found malformed.
  RawSession session(node_, GetParam());
  const auto reply = session.control->call(wire::Type::grant, wire::Bytes(wire::kMaxBody));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status(), Errc::invalid);
}

TEST_P(ProtocolAbuse, payloads_where_none_belong) {
  for (const wire::Type type : {wire::Type::grant, wire::Type::beat, wire::Type::read, wire::Type::write}) {
    RawSession session(node_, GetParam());
    ASSERT_TRUE(session.control->send(header_bytes(0, number(type), kPageSize)));
    EXPECT_TRUE(session.control->closed()) << number(type);
  }
}

TEST_P(ProtocolAbuse, unknown_types) {
  constexpr std::uint16_t kNext = static_cast<std::uint16_t>(wire::Type::pulled) + 1;
  for (const auto type : std::initializer_list<std::uint16_t>{0, kNext, 99, 0x7fff}) {
    RawSession session(node_, GetParam());
    ASSERT_TRUE(session.control->send(header_bytes(0, type, 0)));
    EXPECT_TRUE(session.control->closed()) << type;
  }
}

TEST_P(ProtocolAbuse, replies_instead_of_requests) {
  for (const wire::Type type : {wire::Type::hello, wire::Type::grant, wire::Type::read, wire::Type::bye}) {
    RawSession session(node_, GetParam());
    ASSERT_TRUE(session.control->send(header_bytes(0, number(type) | wire::kReplyBit, 0)));
    EXPECT_TRUE(session.control->closed()) << number(type);
  }
}

TEST_P(ProtocolAbuse, reads_and_writes_on_the_control_connection) {
  RawSession session(node_, GetParam());
  const auto frames = session.grant(8, 3);
  const auto reply = session.control->call(wire::Type::read, segments(frames.at(0)));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status(), Errc::invalid);
  EXPECT_TRUE(reply->payload.empty());
}

TEST_P(ProtocolAbuse, a_grant_of_everything) {
  RawSession session(node_, GetParam());
  const auto extents = session.grant(UINT32_MAX, 0);
  // All but what the good client holds: its frames, or on shared memory its slab.
  EXPECT_EQ(total_frames(extents), node_.frames() - (GetParam() == Over::shm ? 512 : 8));
  EXPECT_EQ(session.give_back(extents), Errc::ok);
}

// Every frame given back one by one, in an order that keeps the free space in pieces.
TEST_P(ProtocolAbuse, a_return_in_the_most_pieces) {
  RawSession session(node_, GetParam());
  const auto extents = session.grant(2048, 9);
  std::vector<Extent> odd;
  std::vector<Extent> even;
  for (const auto& extent : extents) {
    for (std::uint32_t i = 0; i < extent.count; ++i) {
      (i % 2 == 0 ? even : odd).push_back(Extent{extent.first + i, 1});
    }
  }
  EXPECT_EQ(session.give_back(odd), Errc::ok);
  EXPECT_EQ(session.give_back(odd), Errc::denied);
  EXPECT_EQ(session.give_back(even), Errc::ok);
  const std::vector<Extent> too_many(wire::kMaxExtents + 1, Extent{FrameNo{0}, 1});
  EXPECT_EQ(session.give_back(too_many), Errc::invalid);
}

TEST_P(ProtocolAbuse, maps_that_make_no_sense) {
  RawSession session(node_, GetParam());
  const auto frames = session.grant(8, 3);
  ASSERT_FALSE(frames.empty());
  session.control->fds.clear();
  for (const auto& slabs : {std::vector<std::uint32_t>{}, std::vector<std::uint32_t>(wire::kMaxSlabsPerMap + 1, 0)}) {
    const auto reply = session.control->call(wire::Type::map, wire::encode(wire::Map{slabs}));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status(), Errc::invalid);
  }
  for (const std::uint32_t slab : {node_.frames() / 512, UINT32_MAX}) {
    const auto reply = session.control->call(wire::Type::map, wire::encode(wire::Map{{slab}}));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status(), Errc::denied);
  }
  EXPECT_TRUE(session.control->fds.empty());
}

TEST_P(ProtocolAbuse, a_name_may_hold_anything) {
  auto options = node_.options(GetParam());
  options.name = std::string("\x1b[2J\xff\xfe\0\n\"name", 14) + std::string(200, 'x');
  const auto link = node_.connect(GetParam(), options);
  const auto status = link->status();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->clients.size(), 2U);
}

// --- lanes ---

class LaneAbuse : public ProtocolAbuse {};

INSTANTIATE_TEST_SUITE_P(Over, LaneAbuse, testing::Values(Over::tcp, Over::tls), testing::PrintToStringParamName());

TEST_P(LaneAbuse, a_read_of_the_whole_address_space) {
  RawSession session(node_, GetParam());
  const auto own = session.grant(8, 3);
  // More pages than one request may have, however they are cut.
  for (const auto& extents :
       {std::vector<Extent>{{FrameNo{0}, UINT32_MAX}}, std::vector<Extent>(64, Extent{FrameNo{0}, UINT32_MAX}),
        std::vector<Extent>{{own.at(0).first, 8}, {FrameNo{0}, wire::kMaxTransferPages}}}) {
    auto lane = session.join(wire::Purpose::lane);
    ASSERT_TRUE(lane.send(request(wire::Type::read, 1, segments(extents))));
    EXPECT_TRUE(lane.closed());
  }
  // As many as it may have, of frames it does not hold: refused, and the lane goes on.
  auto lane = session.join(wire::Purpose::lane);
  for (const Extent extent : {Extent{FrameNo{0}, 256}, Extent{FrameNo{node_.frames() - 1}, 256},
                              Extent{FrameNo{UINT32_MAX - 255}, 256}, Extent{FrameNo{UINT32_MAX}, 1}}) {
    const auto reply = lane.call(wire::Type::read, segments(extent));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status(), Errc::denied);
    EXPECT_TRUE(reply->payload.empty());
  }
  EXPECT_TRUE(lane.call(wire::Type::read, segments(own.at(0))));
}

TEST_P(LaneAbuse, malformed_segments) {
  RawSession session(node_, GetParam());
  const auto own = session.grant(8, 3);
  const auto frame = segments(Extent{own.at(0).first, 1});
  std::vector<wire::Bytes> bodies{{},                                           // none
                                  wire::Bytes(frame.begin(), frame.end() - 1),  // cut
                                  segments(Extent{own[0].first, 0}),            // empty
                                  segments(Extent{FrameNo{UINT32_MAX}, 2}),     // past the end of all frames
                                  segments(std::vector<Extent>(65, Extent{own[0].first, 1})),
                                  wire::Bytes(wire::kMaxBody)};
  for (const auto& body : bodies) {
    auto lane = session.join(wire::Purpose::lane);
    (void)lane.send(request(wire::Type::read, 1, body));
    EXPECT_TRUE(lane.closed()) << "a body of " << body.size();
  }
}

TEST_P(LaneAbuse, a_payload_that_does_not_fit_its_segments) {
  RawSession session(node_, GetParam());
  const auto own = session.grant(8, 3);
  const auto body = segments(Extent{own.at(0).first, 2});
  const auto size = static_cast<std::uint32_t>(body.size());
  for (const std::uint32_t payload : {std::uint32_t{0}, std::uint32_t{kPageSize}, std::uint32_t{3 * kPageSize},
                                      std::uint32_t{2 * kPageSize - 1}, UINT32_MAX, UINT32_MAX - 4095}) {
    auto lane = session.join(wire::Purpose::lane);
    auto bytes = header_bytes(size, number(wire::Type::write), payload);
    bytes.insert(bytes.end(), body.begin(), body.end());
    ASSERT_TRUE(lane.send(bytes));
    EXPECT_TRUE(lane.closed()) << payload;
  }
  auto lane = session.join(wire::Purpose::lane);
  auto bytes = header_bytes(size, number(wire::Type::read), 2 * kPageSize);
  bytes.insert(bytes.end(), body.begin(), body.end());
  ASSERT_TRUE(lane.send(bytes));
  EXPECT_TRUE(lane.closed());
}

TEST_P(LaneAbuse, control_calls_on_a_lane) {
  RawSession session(node_, GetParam());
  const auto own = session.grant(8, 3);
  for (const wire::Type type : {wire::Type::hello, wire::Type::grant, wire::Type::beat, wire::Type::bye}) {
    auto lane = session.join(wire::Purpose::lane);
    ASSERT_TRUE(lane.send(request(type, 1, segments(own.at(0)))));
    EXPECT_TRUE(lane.closed());
  }
  EXPECT_TRUE(session.control->call(wire::Type::beat)) << "the session is none the worse for it";
}

// The same frame many times in one request: allowed, and the last wins.
TEST_P(LaneAbuse, one_frame_in_all_segments) {
  RawSession session(node_, GetParam());
  const auto own = session.grant(8, 3);
  auto lane = session.join(wire::Purpose::lane);
  const std::vector<Extent> same(wire::kMaxSegments, Extent{own.at(0).first, 1});
  Pages pages(wire::kMaxSegments, 92);
  const auto written = lane.call(wire::Type::write, segments(same), std::span(pages.data(), pages.size()));
  ASSERT_TRUE(written);
  EXPECT_EQ(written->status(), Errc::ok);
  const auto reply = lane.call(wire::Type::read, segments(same[0]));
  ASSERT_TRUE(reply && reply->payload.size() == kPageSize);
  EXPECT_TRUE(page_is(reply->payload.data(), 92, wire::kMaxSegments - 1));
}

// A refused write's pages are thrown away, and the request behind them is found where it begins.
TEST_P(LaneAbuse, refused_writes_between_good_ones) {
  RawSession session(node_, GetParam());
  const auto own = session.grant(256, 8);
  auto lane = session.join(wire::Purpose::lane);
  Pages pages(256, 93);
  wire::Bytes stream;
  for (std::uint32_t i = 0; i < 12; ++i) {
    const bool good = i % 3 == 0;
    const std::uint32_t count = 1 + i * 20;
    const Extent extent = good ? Extent{own.at(0).first, count} : Extent{FrameNo{node_.frames() - 256}, count};
    const auto one = request(wire::Type::write, i, segments(extent), std::span(pages.data(), count * kPageSize));
    stream.insert(stream.end(), one.begin(), one.end());
  }
  ASSERT_TRUE(lane.send(stream));
  for (std::uint32_t i = 0; i < 12; ++i) {
    const auto reply = lane.receive();
    ASSERT_TRUE(reply) << i;
    EXPECT_EQ(reply->header.tag, i);
    EXPECT_EQ(reply->status(), i % 3 == 0 ? Errc::ok : Errc::denied) << i;
  }
}

// A thousand requests in one go: all are answered, in order.
TEST_P(LaneAbuse, a_thousand_requests_at_once) {
  RawSession session(node_, GetParam());
  const auto own = session.grant(8, 3);
  auto lane = session.join(wire::Purpose::lane);
  wire::Bytes stream;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const auto one = request(wire::Type::read, i, segments(Extent{own.at(0).first, 1}));
    stream.insert(stream.end(), one.begin(), one.end());
  }
  ASSERT_TRUE(lane.send(stream));
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const auto reply = lane.receive();
    ASSERT_TRUE(reply) << i;
    EXPECT_EQ(reply->header.tag, i);
    EXPECT_EQ(reply->payload.size(), kPageSize);
  }
}

}  // namespace
}  // namespace comex::test

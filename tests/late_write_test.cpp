// Late writes: bytes of a write that arrive after the frames have gone to somebody else land nowhere, and bytes of an
// older connection never land on top of a newer one's. See "Late writes" in docs/design-notes.md.
#include <gtest/gtest.h>

#include <deque>

#include "support/heartbeat.h"
#include "support/node.h"
#include "support/pages.h"
#include "support/raw_client.h"

#if defined(__SANITIZE_THREAD__)
// A client writes a frame through one lane and reads it through another. What orders the two is the reply it waited
// for in between, on the network, which the sanitizer does not see: it takes the node's two lane threads for racing.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:comex::LanePeer::copy_from_in\nrace:comex::LanePeer::flush\nrace:comex::LanePeer::receive_pages\nrace:"
         "comex::Puller::land\n";
}
#endif

namespace comex::test {
namespace {

constexpr std::uint32_t kPages = 64;

class LateWrite : public testing::TestWithParam<Over> {
 protected:
  static ServerConfig config(Millis lease) {
    auto config = TestNode::config();
    config.lease = lease;
    return config;
  }

  // Begins a write of the whole extent and stops after `sent` bytes of its pages, once they have arrived at the node.
  static void begin_write(RawSession& session, RawPeer& lane, const Extent& frames, Pages& pages, std::size_t sent) {
    const auto whole = request(wire::Type::write, 1, segments(frames), std::span(pages.data(), pages.size()));
    ASSERT_TRUE(lane.send(wire::ByteView(whole).first(whole.size() - pages.size() + sent)));
    auto other_lane = session.join(wire::Purpose::lane);
    ASSERT_TRUE(wait_until([&] {
      const auto reply = other_lane.call(wire::Type::read, segments(Extent{frames.first, 1}));
      return reply && reply->payload.size() == kPageSize && page_is(reply->payload.data(), 71, 0);
    }));
  }
  static wire::ByteView rest(Pages& pages, std::size_t sent) {
    return std::as_bytes(std::span(pages.data(), pages.size())).subspan(sent);
  }
  // Takes every frame and fills it.
  static std::vector<Extent> take_all(const TestNode& node, Link& link) {
    auto extents = granted(link, node.frames(), 9);
    Pages pages(512);
    for (const auto& extent : extents) {
      pages.fill(extent.first.value + 1);
      EXPECT_EQ(write(link, extent, pages), Errc::ok);
    }
    return extents;
  }
  static void expect_intact(Link& link, const std::vector<Extent>& extents) {
    Pages pages(512);
    for (const auto& extent : extents) {
      ASSERT_EQ(read(link, extent, pages), Errc::ok);
      EXPECT_TRUE(pages.are(extent.first.value + 1)) << "frames from " << extent.first.value;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Over, LateWrite, testing::Values(Over::tcp, Over::tls), testing::PrintToStringParamName());

TEST_P(LateWrite, the_rest_of_a_write_is_thrown_away_after_the_frames_were_returned) {
  for (const std::size_t sent : {kPageSize + 1, kPages / 2 * kPageSize, kPages * kPageSize - 1}) {
    TestNode node(GetParam());
    RawSession slow(node, GetParam());
    auto lane = slow.join(wire::Purpose::lane);
    const Extent frames = slow.grant(kPages, 6).at(0);
    Pages pages(kPages, 71);
    begin_write(slow, lane, frames, pages, sent);
    ASSERT_EQ(slow.give_back({&frames, 1}), Errc::ok);

    const auto owner = node.connect(GetParam());
    const auto extents = take_all(node, *owner);
    ASSERT_TRUE(lane.send(rest(pages, sent)));
    const auto verdict = lane.receive();
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->status(), Errc::denied);
    expect_intact(*owner, extents);
    // The lane is good for more.
    const auto more = slow.control->call(wire::Type::beat);
    EXPECT_TRUE(more && more->status() == Errc::ok);
    const auto refused = lane.call(wire::Type::read, segments(frames));
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status(), Errc::denied);
  }
}

TEST_P(LateWrite, the_rest_of_a_write_is_thrown_away_after_bye) {
  constexpr std::size_t kSent = kPages / 2 * kPageSize;
  TestNode node(GetParam());
  RawSession slow(node, GetParam());
  auto lane = slow.join(wire::Purpose::lane);
  const Extent frames = slow.grant(kPages, 6).at(0);
  Pages pages(kPages, 71);
  begin_write(slow, lane, frames, pages, kSent);
  ASSERT_TRUE(slow.control->call(wire::Type::bye));
  const auto owner = node.connect(GetParam());
  const auto extents = take_all(node, *owner);
  (void)lane.send(rest(pages, kSent));  // the node may have closed it by now
  EXPECT_TRUE(lane.closed());
  expect_intact(*owner, extents);
}

TEST_P(LateWrite, the_rest_of_a_write_is_thrown_away_after_the_lease) {
  constexpr std::size_t kSent = kPages / 2 * kPageSize;
  TestNode node(GetParam(), config(Millis(500)));
  RawSession slow(node, GetParam());
  auto lane = slow.join(wire::Purpose::lane);
  const Extent frames = slow.grant(kPages, 6).at(0);
  Pages pages(kPages, 71);
  begin_write(slow, lane, frames, pages, kSent);
  ASSERT_TRUE(wait_until([&] { return node.clients() == 0; }));
  const auto owner = node.connect(GetParam());
  const Heartbeat beating(*owner);
  const auto extents = take_all(node, *owner);
  (void)lane.send(rest(pages, kSent));
  EXPECT_TRUE(lane.closed());
  expect_intact(*owner, extents);
}

// A read of frames that change hands while it is being sent: none of the new owner's bytes go out.
TEST_P(LateWrite, a_half_sent_read_shows_nothing_of_the_next_owner) {
  TestNode node(GetParam());
  RawSession slow(node, GetParam());
  auto lane = slow.join(wire::Purpose::lane);
  const auto extents = slow.grant(256, 8);
  // Far more than the sockets hold between them, and nobody reads.
  for (std::uint32_t tag = 0; tag < 64; ++tag) {
    ASSERT_TRUE(lane.send(request(wire::Type::read, tag, segments(extents.at(0)))));
  }
  // Once one reply has come, the node is at it; what is on its way by now was read while the frames were ours.
  const auto first = lane.receive();
  ASSERT_TRUE(first);
  ASSERT_EQ(slow.give_back(extents), Errc::ok);
  const auto owner = node.connect(GetParam());
  const auto taken = take_all(node, *owner);
  for (;;) {
    const auto reply = lane.receive();
    if (!reply) break;  // closed in the middle of a reply: honest
    for (std::size_t at = 0; at < reply->payload.size(); at += kPageSize) {
      ASSERT_TRUE(page_is_zeros(reply->payload.data() + at));
    }
    if (reply->header.tag == 63) break;
  }
  expect_intact(*owner, taken);
}

// The network delays the end of a write; the client gives up on the connection, resumes, and writes the frame anew.
// When the delayed bytes arrive after all, they must not replace the newer ones.
TEST_P(LateWrite, an_older_connection_can_not_overwrite_what_a_resumed_one_wrote) {
  constexpr std::size_t kSent = kPages / 2 * kPageSize;
  TestNode node(GetParam());
  RawSession client(node, GetParam());
  auto old_lane = client.join(wire::Purpose::lane);
  const Extent frames = client.grant(kPages, 6).at(0);
  Pages old_pages(kPages, 71);
  begin_write(client, old_lane, frames, old_pages, kSent);

  const auto resumed = node.resume(GetParam(), client.session);
  Pages new_pages(kPages, 72);
  ASSERT_EQ(write(*resumed, frames, new_pages), Errc::ok);
  (void)old_lane.send(rest(old_pages, kSent));
  (void)old_lane.receive(Millis(2000));  // until the node has dealt with it, or closed the lane
  new_pages.clear();
  ASSERT_EQ(read(*resumed, frames, new_pages), Errc::ok);
  EXPECT_TRUE(new_pages.are(72)) << "bytes of the old connection arrived on top of the new one's";
}

// The same for a return that was given up on: it must not free what was granted after the resume.
TEST_P(LateWrite, an_older_connection_can_not_free_what_a_resumed_one_was_granted) {
  TestNode node(GetParam());
  RawSession client(node, GetParam());
  const auto frames = client.grant(kPages, 6);
  const auto late = request(wire::Type::give_back, 9, wire::encode_extents(frames));
  // All but the last byte arrives in time.
  ASSERT_TRUE(client.control->send(wire::ByteView(late).first(late.size() - 1)));

  const auto resumed = node.resume(GetParam(), client.session);
  ASSERT_TRUE(resumed->give_back(frames));
  const auto again = resumed->grant(kPages, 6);
  ASSERT_TRUE(again);
  ASSERT_EQ(again->extents, frames) << "this test relies on getting the same frames again";
  (void)client.control->send(wire::ByteView(late).last(1));
  (void)client.control->receive(Millis(2000));
  Pages pages(kPages, 73);
  EXPECT_EQ(write(*resumed, frames[0], pages), Errc::ok) << "the frames were freed under their holder";
}

}  // namespace
}  // namespace comex::test

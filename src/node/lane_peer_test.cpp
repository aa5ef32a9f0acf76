// Lanes against clients that take their time, in the worst order. See "Late writes" and "Coming back" in
// docs/design-notes.md.
#include "node/lane_peer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <thread>

#include "node/client_fixture_test.h"

namespace comex {
namespace {

using wire::Header;
using wire::Type;

class LanePeerTest : public ClientFixture {
 protected:
  void SetUp() override { open_lane(nullptr); }

  // Null: one of the client's own.
  void open_lane(std::shared_ptr<const Ticket> ticket) {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    lane_ = std::make_unique<LanePeer>(std::make_unique<SocketStream>(Fd(fds[0])), context_, client_, 0, Millis(1000),
                                       std::move(ticket));
    far_ = Fd(fds[1]);
  }
  void send_bytes(const void* data, std::size_t size) {
    ASSERT_EQ(send(far_.get(), data, size, 0), static_cast<ssize_t>(size));
  }
  void send_request(Type type, const Extent& extent, std::uint32_t payload, int times = 1) {
    struct {
      Header header;
      Extent extent;
    } request{{sizeof extent, static_cast<std::uint16_t>(type), 0, 7, payload}, extent};
    const std::vector requests(static_cast<std::size_t>(times), request);
    send_bytes(requests.data(), requests.size() * sizeof request);
  }
  // The status of the reply that has come, if one has.
  std::optional<Errc> reply() {
    Header header;
    if (recv(far_.get(), &header, sizeof header, MSG_DONTWAIT) != sizeof header) return std::nullopt;
    EXPECT_EQ(header.tag, 7U);
    return static_cast<Errc>(header.status);
  }
  // One page of the extent is all `value`.
  bool filled(const Extent& extent, char value) const {
    const auto* at = reinterpret_cast<const char*>(arena_->frame_address(extent.first));
    return std::all_of(at, at + extent.bytes(), [&](char c) { return c == value; });
  }

  NodeContext context_{.arena = *arena_, .ledger = ledger_, .secret = "", .nid = {}};
  const std::vector<Extent> frames_ = *ledger_.grant(*client_, 2, 0);
  std::unique_ptr<LanePeer> lane_;
  Fd far_;
  const std::string ones_ = std::string(kPageSize, '1');
};

TEST_F(LanePeerTest, writes_and_reads) {
  const Extent extent{frames_[0].first, 1};
  send_request(Type::write, extent, kPageSize);
  send_bytes(ones_.data(), ones_.size());
  EXPECT_EQ(lane_->step(), Peer::Want::read);
  EXPECT_EQ(reply(), Errc::ok);
  EXPECT_TRUE(filled(extent, '1'));
  send_request(Type::read, extent, 0);
  EXPECT_EQ(lane_->step(), Peer::Want::read);
  EXPECT_EQ(reply(), Errc::ok);
  std::string page(kPageSize, ' ');
  EXPECT_EQ(recv(far_.get(), page.data(), page.size(), 0), static_cast<ssize_t>(kPageSize));
  EXPECT_EQ(page, ones_);
}

TEST_F(LanePeerTest, late_half_of_a_write_does_not_reach_the_next_owner) {
  const Extent extent{frames_[0].first, 1};
  send_request(Type::write, extent, kPageSize);
  send_bytes(ones_.data(), kPageSize / 2);
  EXPECT_EQ(lane_->step(), Peer::Want::read);
  ASSERT_TRUE(ledger_.give_back(*client_, frames_));
  const auto next = admit();
  const auto all = ledger_.grant(*next, arena_->frames(), 0);
  ASSERT_TRUE(all);
  ASSERT_TRUE(next->holdings.holds(extent));
  EXPECT_TRUE(filled(extent, '\0')) << "nor does the first half";
  send_bytes(ones_.data(), kPageSize / 2);
  EXPECT_EQ(lane_->step(), Peer::Want::read);
  EXPECT_EQ(reply(), Errc::denied);
  EXPECT_TRUE(filled(extent, '\0'));
}

TEST_F(LanePeerTest, late_half_of_a_write_of_a_fenced_client_is_thrown_away) {
  const Extent extent{frames_[0].first, 1};
  send_request(Type::write, extent, kPageSize);
  send_bytes(ones_.data(), kPageSize / 2);
  EXPECT_EQ(lane_->step(), Peer::Want::read);
  ledger_.end(*client_);
  const auto next = admit();
  ASSERT_TRUE(ledger_.grant(*next, arena_->frames(), 0));
  send_bytes(ones_.data(), kPageSize / 2);
  lane_->step();
  EXPECT_EQ(reply(), Errc::fenced);
  EXPECT_TRUE(filled(extent, '\0'));
  EXPECT_TRUE(lane_->overdue(Clock::now())) << "and the connection is closed soon";
}

TEST_F(LanePeerTest, write_of_an_earlier_coming_is_dropped_with_its_lane) {
  const Extent extent{frames_[0].first, 1};
  send_request(Type::write, extent, kPageSize);
  send_bytes(ones_.data(), kPageSize / 2);
  EXPECT_EQ(lane_->step(), Peer::Want::read);
  {
    const std::unique_lock access(client_->access);
    client_->coming.fetch_add(1);  // as a resumed session does
  }
  std::memset(arena_->frame_address(extent.first), '2', kPageSize);  // the client, on its new lane
  send_bytes(ones_.data(), kPageSize / 2);
  EXPECT_EQ(lane_->step(), Peer::Want::close);
  EXPECT_TRUE(filled(extent, '2'));
}

TEST_F(LanePeerTest, frames_not_held_are_denied_and_the_lane_stays_usable) {
  const Extent foreign{FrameNo{frames_[0].first.value + 100}, 1};
  send_request(Type::write, foreign, kPageSize);
  send_bytes(ones_.data(), ones_.size());
  send_request(Type::read, foreign, 0);
  send_request(Type::read, Extent{FrameNo{0xfffffff0}, 8}, 0);
  lane_->step();
  EXPECT_EQ(reply(), Errc::denied);
  EXPECT_EQ(reply(), Errc::denied);
  EXPECT_EQ(reply(), Errc::denied);
  EXPECT_TRUE(filled(foreign, '\0'));
  send_request(Type::read, Extent{frames_[0].first, 1}, 0);
  lane_->step();
  EXPECT_EQ(reply(), Errc::ok);
}

// A lane that was opened by a ticket for the first of the client's two frames.
class TicketLaneTest : public LanePeerTest {
 protected:
  void SetUp() override {
    mine_ = Extent{frames_[0].first, 1};
    other_ = Extent{frames_[0].count > 1 ? frames_[0].first + 1 : frames_[1].first, 1};
    std::memset(arena_->frame_address(mine_.first), '3', kPageSize);
    const auto issued = context_.tickets.issue(client_, 0, {mine_}, Clock::now());
    ASSERT_TRUE(issued);
    ticket_ = context_.tickets.find(issued->number, Clock::now());
    open_lane(ticket_);
  }

  Extent mine_;
  Extent other_;
  std::shared_ptr<const Ticket> ticket_;
};

TEST_F(TicketLaneTest, reads_the_frames_of_the_ticket_and_no_others) {
  const auto heard = client_->last_heard();
  send_request(Type::read, mine_, 0);
  EXPECT_EQ(lane_->step(), Peer::Want::read);
  EXPECT_EQ(reply(), Errc::ok);
  std::string page(kPageSize, ' ');
  EXPECT_EQ(recv(far_.get(), page.data(), page.size(), 0), static_cast<ssize_t>(kPageSize));
  EXPECT_EQ(page, std::string(kPageSize, '3'));
  send_request(Type::read, other_, 0);
  EXPECT_EQ(lane_->step(), Peer::Want::read);
  EXPECT_EQ(reply(), Errc::denied) << "held, but not in the ticket";
  EXPECT_EQ(client_->last_heard(), heard) << "the lease is the client's to renew";
}

TEST_F(TicketLaneTest, does_not_write) {
  send_request(Type::write, mine_, kPageSize);
  send_bytes(ones_.data(), ones_.size());
  EXPECT_EQ(lane_->step(), Peer::Want::close);
  EXPECT_TRUE(filled(mine_, '3'));
}

TEST_F(TicketLaneTest, is_over_with_the_frames_the_coming_the_lease_and_the_time) {
  EXPECT_FALSE(lane_->overdue(Clock::now()));
  EXPECT_TRUE(lane_->overdue(ticket_->until + Millis(1)));
  ASSERT_TRUE(ledger_.give_back(*client_, frames_));
  send_request(Type::read, mine_, 0);
  lane_->step();
  EXPECT_EQ(reply(), Errc::denied);
  client_->coming.fetch_add(1);
  EXPECT_TRUE(lane_->overdue(Clock::now()));
  client_->coming.fetch_sub(1);
  ledger_.end(*client_);
  EXPECT_TRUE(lane_->overdue(Clock::now()));
}

TEST_F(LanePeerTest, one_byte_now_and_then_is_overdue_in_the_end) {
  const auto start = Clock::now();
  Header header;
  send_bytes(&header, 1);
  lane_->step();
  EXPECT_FALSE(lane_->overdue(start));
  EXPECT_TRUE(lane_->overdue(Clock::now() + Millis(1001)));
  header.type = 99;
  send_bytes(reinterpret_cast<char*>(&header) + 1, sizeof header - 1);
  EXPECT_EQ(lane_->step(), Peer::Want::close) << "not this protocol";
}

TEST_F(LanePeerTest, many_requests_in_one_piece_are_all_served) {
  send_request(Type::read, Extent{FrameNo{400}, 1}, 0, 300);  // denied, so replies are short
  int replies = 0;
  for (int steps = 0; steps < 100 && replies < 300; ++steps) {
    const auto want = lane_->step();
    while (reply()) ++replies;
    if (want == Peer::Want::read) break;
  }
  EXPECT_EQ(replies, 300);
}

}  // namespace
}  // namespace comex

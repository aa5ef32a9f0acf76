// Pages that a node pulls from another: what a ticket opens and what it does not, and where pages may land. See
// "Straight from node to node" in docs/design-notes.md.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "fabric/address.h"
#include "fabric/socket.h"
#include "support/heartbeat.h"
#include "support/node.h"
#include "support/pages.h"
#include "support/proxy.h"
#include "support/raw_client.h"
#include "support/wait.h"
#include "wire/auth.h"

namespace comex::test {
namespace {

constexpr std::uint32_t kPulledPages = 64;

wire::Address at_port(wire::Address address, std::uint16_t port) {
  address.port = port;
  return address;
}

// A client with pages on one node, and frames for them on another that has another secret.
class Straight : public testing::Test {
 protected:
  static ServerConfig other_config() {
    auto config = TestNode::config();
    config.secret = "another";
    return config;
  }
  static LinkOptions other_options(const TestNode& node) {
    LinkOptions options = node.options(Over::tcp);
    options.secret = "another";
    return options;
  }

  void SetUp() override {
    Pages pages(kPulledPages, 7);
    ASSERT_EQ(write(*here_, from_, pages), Errc::ok);
  }

  // An honest request, with a new ticket.
  wire::Pull request() {
    wire::Pull pull;
    pull.from = *here_->node().address;
    pull.boot_id = here_->session().boot_id;
    const auto ticket = here_->ticket(std::array{from_});
    EXPECT_TRUE(ticket) << ticket.error().message;
    if (ticket) pull.ticket = *ticket;
    cover(pull, wire::ticket_key(here_->session().key, pull.ticket));
    pull.source = {from_};
    pull.target = {to_};
    return pull;
  }
  void cover(wire::Pull& pull, const wire::SessionKey& key) const {
    pull.covered_key = wire::cover_key(there_->session().key, pull.ticket, key);
  }
  static wire::PullState outcome(Link& link) {
    auto state = wire::PullState::under_way;
    EXPECT_TRUE(wait_until([&] {
      const auto now = link.pulled();
      state = now ? *now : wire::PullState::failed;
      return state != wire::PullState::under_way;
    }));
    return state;
  }
  wire::PullState pull(const wire::Pull& request) {
    const auto begun = there_->pull(request);
    EXPECT_TRUE(begun) << begun.error().message;
    return begun ? outcome(*there_) : wire::PullState::failed;
  }
  bool nothing_came() {
    Pages pages(kPulledPages);
    return read(*there_, to_, pages) == Errc::ok && pages.are_zeros();
  }

  TestNode source_;
  TestNode target_{Over::tcp, other_config()};
  std::unique_ptr<Link> here_ = source_.connect(Over::tcp);
  std::unique_ptr<Link> there_ = target_.connect(Over::tcp, other_options(target_));
  Extent from_ = granted_extent(*here_, kPulledPages);
  Extent to_ = granted_extent(*there_, kPulledPages);
  Heartbeat heart_here_{*here_};
  Heartbeat heart_there_{*there_};
};

TEST_F(Straight, pages_go_from_one_node_to_the_other) {
  EXPECT_EQ(pull(request()), wire::PullState::landed);
  Pages pages(kPulledPages);
  ASSERT_EQ(read(*there_, to_, pages), Errc::ok);
  EXPECT_TRUE(pages.are(7));
  EXPECT_EQ(target_.server().status().pages_pulled, kPulledPages);
  EXPECT_EQ(target_.server().status().pages_written, 0U);
}

TEST_F(Straight, in_other_pieces_than_they_were) {
  wire::Pull some = request();
  some.source = {Extent{from_.first + 32, 32}, Extent{from_.first, 32}};
  some.target = {Extent{to_.first + 63, 1}, Extent{to_.first, 63}};
  EXPECT_EQ(pull(some), wire::PullState::landed);
  Pages pages(kPulledPages);
  ASSERT_EQ(read(*there_, to_, pages), Errc::ok);
  EXPECT_TRUE(page_is(pages.page(63), 7, 32));
  EXPECT_TRUE(page_is(pages.page(0), 7, 33));
  EXPECT_TRUE(page_is(pages.page(31), 7, 0));
}

TEST_F(Straight, a_ticket_is_good_once) {
  const wire::Pull twice = request();
  EXPECT_EQ(pull(twice), wire::PullState::landed);
  EXPECT_EQ(pull(twice), wire::PullState::failed);
}

TEST_F(Straight, a_wrong_key_opens_nothing_and_does_not_use_the_ticket_up) {
  wire::Pull wrong = request();
  wrong.covered_key[3] ^= std::byte{1};
  EXPECT_EQ(pull(wrong), wire::PullState::failed);
  EXPECT_TRUE(nothing_came());
  wrong.covered_key[3] ^= std::byte{1};
  EXPECT_EQ(pull(wrong), wire::PullState::landed);
}

TEST_F(Straight, frames_that_are_not_in_the_ticket_stay_where_they_are) {
  const Extent other = granted_extent(*here_, kPulledPages);
  wire::Pull wrong = request();
  wrong.source = {Extent{from_.first, kPulledPages - 1}, Extent{other.first, 1}};
  EXPECT_EQ(pull(wrong), wire::PullState::failed);
  EXPECT_TRUE(nothing_came());
}

TEST_F(Straight, nothing_lands_in_frames_of_others) {
  const auto neighbour = target_.connect(Over::tcp, other_options(target_));
  const Extent theirs = granted_extent(*neighbour, kPulledPages);
  wire::Pull wrong = request();
  wrong.target = {theirs};
  EXPECT_EQ(pull(wrong), wire::PullState::failed);
  Pages pages(kPulledPages);
  ASSERT_EQ(read(*neighbour, theirs, pages), Errc::ok);
  EXPECT_TRUE(pages.are_zeros());
}

TEST_F(Straight, a_ticket_is_for_frames_of_ones_own) {
  const auto neighbour = source_.connect(Over::tcp);
  const auto ticket = neighbour->ticket(std::array{from_});
  ASSERT_FALSE(ticket);
  EXPECT_EQ(ticket.error().code, Errc::denied);
}

TEST_F(Straight, a_ticket_goes_with_its_session) {
  const wire::Pull late = request();
  here_->bye();
  EXPECT_EQ(pull(late), wire::PullState::failed);
  EXPECT_TRUE(nothing_came());
}

TEST_F(Straight, a_ticket_goes_when_its_session_resumes) {
  const wire::Pull late = request();
  const auto again = source_.resume(Over::tcp, here_->session());
  EXPECT_EQ(pull(late), wire::PullState::failed);
}

// What a ticket opens is no control connection, and no lane for writing.
TEST_F(Straight, a_ticket_is_for_reading) {
  const wire::Pull ticket = request();
  auto peer = RawPeer::dial(source_.url(Over::tcp));
  const auto key = wire::ticket_key(here_->session().key, ticket.ticket);
  const auto proved = shake(peer, hello(wire::Purpose::pull, ClientId{ticket.ticket.number}), key);
  ASSERT_TRUE(proved && proved->status() == Errc::ok);
  EXPECT_EQ(wire::decode<wire::ProofReply>(proved->body)->client, ClientId{}) << "whose it is, is nobody's business";
  Pages pages(1, 9);
  (void)peer.send(
      comex::test::request(wire::Type::write, 1, segments(Extent{from_.first, 1}), {pages.data(), pages.size()}));
  EXPECT_TRUE(peer.closed());
  Pages still(kPulledPages);
  ASSERT_EQ(read(*here_, from_, still), Errc::ok);
  EXPECT_TRUE(still.are(7));
}

TEST_F(Straight, neither_a_lane_nor_a_session_is_opened_by_a_tickets_key) {
  const wire::Pull ticket = request();
  const auto key = wire::ticket_key(here_->session().key, ticket.ticket);
  for (const auto purpose : {wire::Purpose::lane, wire::Purpose::resume}) {
    for (const ClientId who : {ClientId{ticket.ticket.number}, here_->session().client}) {
      auto peer = RawPeer::dial(source_.url(Over::tcp));
      const auto answer = shake(peer, hello(purpose, who), key);
      EXPECT_TRUE(answer && answer->status() != Errc::ok);
    }
  }
}

TEST_F(Straight, one_that_leads_nowhere_fails_and_too_many_of_them_are_refused) {
  wire::Pull nowhere = request();
  {
    const auto listener = listen_tcp("127.0.0.1:0");  // whose port is nobody's in a moment
    ASSERT_TRUE(listener);
    nowhere.from = at_port(nowhere.from, listener->port);
  }
  int failed = 0;
  Errc refusal = Errc::ok;
  for (int i = 0; i < 100 && refusal == Errc::ok; ++i) {
    const auto begun = there_->pull(nowhere);
    if (!begun)
      refusal = begun.error().code;
    else if (outcome(*there_) == wire::PullState::failed)
      ++failed;
  }
  EXPECT_EQ(refusal, Errc::busy);
  EXPECT_GE(failed, 8);
  EXPECT_TRUE(wait_until([&] { return there_->pull(nowhere).has_value(); })) << "for a second";
  EXPECT_EQ(outcome(*there_), wire::PullState::failed);
}

// A node that was started again is another: nothing but a hello is said to it.
TEST_F(Straight, only_the_node_that_was_meant_is_asked) {
  wire::Pull other = request();
  other.boot_id ^= 1;
  EXPECT_EQ(pull(other), wire::PullState::failed);
  EXPECT_EQ(pull(request()), wire::PullState::landed);
}

TEST_F(Straight, there_is_no_answer_about_a_pull_that_never_was) {
  EXPECT_EQ(there_->pulled().error().code, Errc::invalid);
}

TEST_F(Straight, not_for_sessions_on_shared_memory) {
  const auto local = source_.connect(Over::shm);
  const Extent frames = granted_extent(*local, kPulledPages);
  EXPECT_EQ(local->ticket(std::array{frames}).error().code, Errc::invalid);
}

// The pages are held up on their way until the gate is opened.
class StraightHeldUp : public Straight {
 protected:
  wire::Pull held_up() {
    wire::Pull pull = request();
    pull.from = at_port(pull.from, proxy_.url().port);
    return pull;
  }
  void open() { gate_ = true; }
  bool on_its_way_soon() {
    return wait_until([&] { return waiting_.load(); });
  }
  // The node takes another: the last is over.
  void wait_until_over(Link& link) {
    wire::Pull next = request();
    next.covered_key = wire::cover_key(link.session().key, next.ticket, next.covered_key);  // wrong
    EXPECT_TRUE(wait_until([&] { return link.pull(next).has_value(); }));
    EXPECT_EQ(outcome(link), wire::PullState::failed);
  }

  std::atomic<bool> gate_{false};
  std::atomic<bool> waiting_{false};
  RecordingProxy proxy_{source_.url(Over::tcp), [this](std::span<std::byte> piece) {
                          if (piece.size() < 4096) return;
                          waiting_ = true;
                          (void)wait_until([&] { return gate_.load(); });
                        }};
};

TEST_F(StraightHeldUp, is_under_way_until_it_has_landed_and_keeps_nobody_waiting) {
  ASSERT_TRUE(there_->pull(held_up()));
  ASSERT_TRUE(on_its_way_soon());
  EXPECT_EQ(*there_->pulled(), wire::PullState::under_way);
  EXPECT_EQ(there_->pull(request()).error().code, Errc::busy);
  EXPECT_TRUE(nothing_came());
  open();
  EXPECT_EQ(outcome(*there_), wire::PullState::landed);
  EXPECT_FALSE(nothing_came());
}

TEST_F(StraightHeldUp, nothing_lands_after_the_frames_have_changed_hands) {
  ASSERT_TRUE(there_->pull(held_up()));
  ASSERT_TRUE(on_its_way_soon());
  ASSERT_TRUE(there_->give_back(std::array{to_}));
  const auto neighbour = target_.connect(Over::tcp, other_options(target_));
  const auto theirs = granted(*neighbour, target_.free_frames());
  open();
  EXPECT_EQ(outcome(*there_), wire::PullState::failed);
  for (const Extent& extent : theirs) {
    Pages pages(extent.count);
    ASSERT_EQ(read(*neighbour, extent, pages), Errc::ok);
    EXPECT_TRUE(pages.are_zeros());
  }
}

TEST_F(StraightHeldUp, nothing_lands_after_the_session_has_resumed) {
  ASSERT_TRUE(there_->pull(held_up()));
  ASSERT_TRUE(on_its_way_soon());
  const auto again = target_.resume(Over::tcp, there_->session());
  EXPECT_EQ(again->pulled().error().code, Errc::invalid) << "that was another coming's";
  open();
  wait_until_over(*again);
  Pages pages(kPulledPages);
  ASSERT_EQ(read(*again, to_, pages), Errc::ok);
  EXPECT_TRUE(pages.are_zeros());
}

// Of an older version: it is not asked, and would not know.
TEST(StraightVersions, an_older_node_is_known_as_one) {
  auto config = TestNode::config();
  config.version = 2;
  const TestNode node(Over::tcp, config);
  const auto link = node.connect(Over::tcp);
  EXPECT_EQ(link->node().version, 2U);
  EXPECT_FALSE(link->status()->pages_pulled);
  const Extent frames = granted_extent(*link, 1);
  EXPECT_EQ(link->ticket(std::array{frames}).error().code, Errc::invalid);
}

TEST(StraightVersions, an_older_client_is_served_as_before) {
  const TestNode node;
  auto peer = RawPeer::dial(node.url(Over::tcp));
  wire::Hello old = hello(wire::Purpose::observe);
  old.version_min = old.version_max = 2;
  const auto proved = shake(peer, old, std::as_bytes(std::span(std::string_view(TestNode::kSecret))));
  ASSERT_TRUE(proved && proved->status() == Errc::ok);
  const auto status = peer.call(wire::Type::status);
  ASSERT_TRUE(status);
  EXPECT_FALSE(wire::decode<wire::StatusReply>(status->body)->pages_pulled);
}

}  // namespace
}  // namespace comex::test

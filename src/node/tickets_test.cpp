#include "node/tickets.h"

#include <gtest/gtest.h>

#include "node/client_fixture_test.h"
#include "wire/auth.h"

namespace comex {
namespace {

class TicketsTest : public ClientFixture {
 protected:
  std::uint64_t issue() { return tickets_.issue(client_, 0, {frames_}, now_)->number; }
  bool is_there(std::uint64_t number, Millis later = Millis(0)) {
    return tickets_.find(number, now_ + later) != nullptr;
  }

  const Extent frames_ = ledger_.grant(*client_, 16, 4)->front();
  Tickets tickets_;
  const Clock::time_point now_ = Clock::now();
};

TEST_F(TicketsTest, opens_its_frames_and_nothing_beside_them) {
  const Extent middle{frames_.first + 4, 8};
  const auto reply = tickets_.issue(client_, 0, {middle}, now_);
  ASSERT_TRUE(reply);
  const auto ticket = tickets_.find(reply->number, now_);
  ASSERT_TRUE(ticket);
  EXPECT_TRUE(ticket->opens(middle));
  EXPECT_TRUE(ticket->opens(Extent{middle.first + 7, 1}));
  EXPECT_FALSE(ticket->opens(Extent{middle.first + 7, 2}));
  EXPECT_FALSE(ticket->opens(Extent{FrameNo{middle.first.value - 1}, 2}));
  EXPECT_FALSE(ticket->opens(Extent{FrameNo{0xffffffff}, 1}));
}

TEST_F(TicketsTest, is_for_frames_that_the_client_holds) {
  const auto stranger = admit();
  EXPECT_EQ(tickets_.issue(stranger, 0, {frames_}, now_).error().code, Errc::denied);
  EXPECT_EQ(tickets_.issue(client_, 0, {Extent{frames_.first, frames_.count + 1}}, now_).error().code, Errc::denied);
  EXPECT_EQ(tickets_.issue(client_, 0, {Extent{FrameNo{0xfffffff0}, 8}}, now_).error().code, Errc::denied);
}

TEST_F(TicketsTest, is_good_once_and_not_for_long) {
  const auto number = issue();
  EXPECT_TRUE(is_there(number));
  EXPECT_FALSE(is_there(number + 1));
  EXPECT_TRUE(is_there(number, Millis(5'000)));
  EXPECT_FALSE(is_there(number, Millis(5'001)));
  EXPECT_TRUE(tickets_.redeem(number));
  EXPECT_FALSE(is_there(number));
  EXPECT_FALSE(tickets_.redeem(number));
}

TEST_F(TicketsTest, goes_with_the_coming_and_with_the_client) {
  const auto number = issue();
  client_->coming.fetch_add(1);
  EXPECT_FALSE(is_there(number));
  const auto next = tickets_.issue(client_, 1, {frames_}, now_)->number;
  EXPECT_TRUE(is_there(next));
  ledger_.end(*client_);
  EXPECT_FALSE(is_there(next));
}

TEST_F(TicketsTest, there_are_not_too_many) {
  for (int i = 0; i < 16; ++i) issue();
  EXPECT_EQ(tickets_.issue(client_, 0, {frames_}, now_).error().code, Errc::busy);
  EXPECT_TRUE(tickets_.issue(client_, 0, {frames_}, now_ + Millis(5'001))) << "old ones make room";
}

TEST_F(TicketsTest, the_key_is_that_of_the_session_and_the_ticket) {
  const auto reply = tickets_.issue(client_, 0, {frames_}, now_);
  EXPECT_EQ(tickets_.find(reply->number, now_)->key, wire::ticket_key(client_->key, *reply));
}

}  // namespace
}  // namespace comex

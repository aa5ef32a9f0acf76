// Faults on the way: whatever a link does to transfers, each completes exactly once and nobody hangs.
#include "fabric/faulty_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include "support/node.h"
#include "support/pages.h"
#include "support/wait.h"

namespace comex::test {
namespace {

class FaultyLinkTest : public testing::TestWithParam<Over> {
 protected:
  static constexpr std::uint32_t kTransfers = 40;

  std::unique_ptr<FaultyLink> with(const FaultPlan& plan) {
    auto link = std::make_unique<FaultyLink>(node_.connect(GetParam()), plan);
    frames_ = granted_extent(*link, 64);
    return link;
  }

  // Submits kTransfers reads of one page each.
  void submit_all(Link& link) {
    for (std::uint32_t i = 0; i < kTransfers; ++i) {
      segments_.push_back(Segment{frames_.first + i, 1, pages_.page(i)});
      transfers_.emplace_back(Direction::read, std::span(&segments_.back(), 1));
      link.submit(transfers_.back());
    }
  }
  // The order in which they completed. A transfer that does not complete, or completes twice, fails the test.
  std::vector<std::uint32_t> collect(Link& link) {
    std::vector<std::uint32_t> order;
    const auto all_done = [&] {
      link.progress();
      for (std::uint32_t i = 0; i < kTransfers; ++i) {
        if (transfers_[i].done() && std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
      }
      return order.size() == kTransfers;
    };
    EXPECT_TRUE(wait_until(all_done)) << "only " << order.size() << " of " << kTransfers << " completed";
    return order;
  }

  TestNode node_{GetParam()};
  Extent frames_;
  Pages pages_{64};
  std::deque<Segment> segments_;
  std::deque<Transfer> transfers_;
};

INSTANTIATE_TEST_SUITE_P(Over, FaultyLinkTest, testing::ValuesIn(media()), testing::PrintToStringParamName());

TEST_P(FaultyLinkTest, without_faults_is_a_link) {
  const auto link = with({});
  Pages out(64, 51);
  ASSERT_EQ(write(*link, frames_, out), Errc::ok);
  submit_all(*link);
  collect(*link);
  for (std::uint32_t i = 0; i < kTransfers; ++i) {
    EXPECT_EQ(transfers_[i].result(), Errc::ok);
    EXPECT_TRUE(page_is(pages_.page(i), 51, i));
  }
}

TEST_P(FaultyLinkTest, delayed_completions_come_late_but_come) {
  constexpr Millis kDelay{30};
  const auto link = with({.delay = kDelay});
  const auto start = Clock::now();
  submit_all(*link);
  link->progress();
  const bool early = transfers_.back().done() && Clock::now() - start < kDelay;
  EXPECT_FALSE(early);
  collect(*link);
  EXPECT_GE(Clock::now() - start, kDelay);
  for (const auto& transfer : transfers_) EXPECT_EQ(transfer.result(), Errc::ok);
}

TEST_P(FaultyLinkTest, reordered_completions_each_have_the_right_pages) {
  const auto link = with({.seed = 5, .delay = Millis(5), .reorder = true});
  Pages out(64, 52);
  ASSERT_EQ(write(*link, frames_, out), Errc::ok);
  submit_all(*link);
  // Waited for backwards, which is an order too.
  for (auto at = transfers_.rbegin(); at != transfers_.rend(); ++at) EXPECT_EQ(link->wait(*at), Errc::ok);
  for (std::uint32_t i = 0; i < kTransfers; ++i) EXPECT_TRUE(page_is(pages_.page(i), 52, i));
}

TEST_P(FaultyLinkTest, a_lost_transfer_breaks_the_link_by_time_out) {
  const auto link = with({.drop_every = 7, .transfer_timeout = Millis(50)});
  submit_all(*link);
  collect(*link);
  EXPECT_EQ(link->broken(), Errc::timeout);
  EXPECT_EQ(transfers_[6].result(), Errc::timeout);
  for (const auto& transfer : transfers_) {
    EXPECT_TRUE(transfer.result() == Errc::ok || transfer.result() == Errc::timeout) << to_string(transfer.result());
  }
  Pages page(1);
  EXPECT_EQ(read(*link, Extent{frames_.first, 1}, page), Errc::timeout);
}

TEST_P(FaultyLinkTest, dying_at_step_n_ends_everything_at_once) {
  for (const std::uint64_t step : {std::uint64_t{1}, std::uint64_t{17}, std::uint64_t{kTransfers}}) {
    segments_.clear();
    transfers_.clear();
    // Completions would take a minute: only the link's death can end them.
    const auto link = with({.delay = Millis(60'000), .die_at = step});
    submit_all(*link);
    EXPECT_EQ(link->broken(), Errc::disconnected);
    for (std::uint64_t i = 0; i < step; ++i) {
      ASSERT_TRUE(transfers_[i].done()) << i;
      EXPECT_EQ(transfers_[i].result(), Errc::disconnected);
    }
    // What was submitted to the dead link is due like the rest of what is delayed; severing again ends it.
    link->sever(Errc::disconnected);
    collect(*link);
    EXPECT_FALSE(link->beat());
  }
}

// Link, invariant 3: new transfers of a broken link complete at once, also when the plan says to drop or delay them.
TEST_P(FaultyLinkTest, a_broken_link_refuses_at_once) {
  const auto link = with({.delay = Millis(60'000), .drop_every = 2, .transfer_timeout = Millis(60'000)});
  link->sever(Errc::disconnected);
  submit_all(*link);
  link->progress();
  for (const auto& transfer : transfers_) {
    ASSERT_TRUE(transfer.done());
    EXPECT_EQ(transfer.result(), Errc::disconnected);
  }
}

// Threads in the middle of everything when the link dies: each gets its answer.
TEST_P(FaultyLinkTest, threads_see_the_death_and_end) {
  const auto link = with({.seed = 9, .delay = Millis(1), .reorder = true, .die_at = 300});
  std::atomic<unsigned> ended{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        Pages page(1);
        const Segment segment{frames_.first + t, 1, page.data()};
        Errc result = Errc::ok;
        for (int i = 0; i < 100'000 && result == Errc::ok; ++i) {
          Transfer transfer(i % 2 == 0 ? Direction::write : Direction::read, {&segment, 1});
          result = link->move(transfer);
        }
        if (result == Errc::disconnected) ++ended;
      });
    }
  }
  EXPECT_EQ(ended, 8U);
}

// A link that goes while transfers are outstanding completes them first: their memory is the caller's again.
TEST_P(FaultyLinkTest, destruction_completes_what_is_outstanding) {
  auto link = with({.delay = Millis(60'000)});
  submit_all(*link);
  link.reset();
  for (const auto& transfer : transfers_) {
    ASSERT_TRUE(transfer.done());
    EXPECT_NE(transfer.result(), Errc::ok);
  }
}

}  // namespace
}  // namespace comex::test

// A keeper that moves pages away from a node while processes use them: nothing is lost, nothing is read from where it
// was, and the node's memory is gone in the end.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "support/kept.h"
#include "support/pages.h"

namespace comex::test {
namespace {

class KeeperMoves : public testing::TestWithParam<Over> {
 protected:
  static void drain(Kept& kept, std::size_t node) { kept.node(node).limit(LendLimit::operator_word, 0); }
  static bool empty(Kept& kept, std::size_t node) {
    const auto status = kept.node(node).status();
    return status.lent == 0 && status.present == 0;
  }
  static bool empty_soon(Kept& kept, std::size_t node, const std::vector<Outpost*>& outposts) {
    return wait_until([&] {
      for (Outpost* const outpost : outposts) outpost->tend();
      return empty(kept, node);
    });
  }
  static std::size_t first_node(Kept& kept, const Outpost& outpost, const std::vector<comex::Run>& runs) {
    return kept.number_of(outpost.place_of(runs[0].at(0)).node);
  }
};
INSTANTIATE_TEST_SUITE_P(Over, KeeperMoves, testing::Values(Over::shm, Over::tcp),
                         [](const auto& over) { return over_name(over.param); });

TEST_P(KeeperMoves, a_drained_node_gives_up_everything_and_nothing_is_lost) {
  for (const std::uint32_t copies : {1U, 2U}) {
    Kept kept(GetParam(), TestNode::kMemory, copies + 1, copies);
    const auto outpost = kept.outpost();
    const auto runs = take_exactly(*outpost, 700);
    ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
    const std::size_t drained = first_node(kept, *outpost, runs);
    const std::uint64_t there = kept.pages_at(drained, *outpost, runs);
    drain(kept, drained);
    ASSERT_TRUE(empty_soon(kept, drained, {outpost.get()}));
    EXPECT_TRUE(has_seed(*outpost, runs, 1));
    EXPECT_TRUE(has_seed_everywhere(*outpost, runs, 1, copies));
    EXPECT_GE(kept.keeper().status().moved, there);
    // It can go, and nobody notices.
    kept.stop_node(drained);
    EXPECT_TRUE(wait_until([&] { return outpost->tend(), has_seed(*outpost, runs, 1); }));
    const auto more = take_exactly(*outpost, 100);
    EXPECT_EQ(write_seed(*outpost, more, 2), Errc::ok);
    EXPECT_TRUE(has_seed(*outpost, more, 2));
  }
}

// What the other copy has may not be what was sent there, and nobody knows before it is read: then it is made right
// from this one.
TEST_P(KeeperMoves, a_drained_node_hands_on_its_own_copy) {
  Kept kept(GetParam(), TestNode::kMemory, 3, 2);
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 200);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  alignas(kPageSize) std::array<std::byte, kPageSize> page{};
  for (const auto& run : runs) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
      const Location first = outpost->places_of(run.at(i)).at[0];
      const std::array segment{Segment{first.frame, 1, page.data()}};
      ASSERT_EQ(outpost->write(first.node, segment), Errc::ok);
    }
  }
  const std::size_t drained = kept.number_of(outpost->places_of(runs[0].at(0)).at[1].node);
  drain(kept, drained);
  ASSERT_TRUE(empty_soon(kept, drained, {outpost.get()}));
  std::uint64_t number = 0;
  for (const auto& run : runs) {
    for (std::uint32_t i = 0; i < run.count; ++i, ++number) {
      const Places places = outpost->readable_places(run.at(i));
      bool right = false;
      for (std::uint32_t copy = 0; copy < places.count; ++copy) {
        const std::array segment{Segment{places.at[copy].frame, 1, page.data()}};
        ASSERT_EQ(outpost->read(places.at[copy].node, segment), Errc::ok);
        right = right || page_is(page.data(), 1, number);
      }
      ASSERT_TRUE(right) << number;
    }
  }
}

// Nobody waits for a node of which nothing is held to come back, or to be lost.
TEST_P(KeeperMoves, a_process_ends_after_its_node_was_drained_and_stopped) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 1);
  auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 200);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  const std::size_t drained = first_node(kept, *outpost, runs);
  drain(kept, drained);
  ASSERT_TRUE(empty_soon(kept, drained, {outpost.get()}));
  kept.stop_node(drained);
  EXPECT_TRUE(has_seed_in_time(*outpost, runs, 1));
  outpost.reset();
  EXPECT_TRUE(wait_until([&] {
    const KeeperStatus status = kept.keeper().status();
    return status.processes + status.leaving == 0;
  }));
}

// Readers never stop, and each page must be right each time.
TEST_P(KeeperMoves, while_threads_read) {
  Kept kept(GetParam(), 2 * TestNode::kMemory, 2, 1);
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 600);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!stop.load()) wrong += has_seed_in_time(*outpost, runs, 1) ? 0 : 1;
    });
  }
  const std::size_t first = first_node(kept, *outpost, runs);
  for (const std::size_t drained : {first, 1 - first, first}) {
    kept.node(1 - drained).limit(LendLimit::operator_word, UINT64_MAX);
    drain(kept, drained);
    EXPECT_TRUE(empty_soon(kept, drained, {outpost.get()}));
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0);
}

// What is being read where it was is not given back before the read has ended.
TEST_P(KeeperMoves, a_read_that_is_under_way_holds_its_frames) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 1);
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 64);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  const std::size_t drained = first_node(kept, *outpost, runs);
  // Begun once the seal was heard, or it would be waited for before that; and before it was answered, which another one
  // holds up.
  const std::uint32_t other = outpost->begin_reads();
  drain(kept, drained);
  std::uint32_t ticket = other;
  const auto is_later = [&] { return ticket / Turnstile::kStripes != other / Turnstile::kStripes; };
  ASSERT_TRUE(wait_until([&] {
    outpost->tend();
    ticket = outpost->begin_reads();
    if (!is_later()) outpost->end_reads(ticket);
    return is_later();
  }));
  ASSERT_EQ(kept.number_of(outpost->place_of(runs[0].at(0)).node), drained);
  outpost->end_reads(other);
  ASSERT_TRUE(
      wait_until([&] { return outpost->tend(), kept.number_of(outpost->place_of(runs[0].at(0)).node) != drained; }));
  for (const Deadline deadline(Millis(200)); !deadline.passed(); std::this_thread::sleep_for(Millis(5)))
    outpost->tend();
  EXPECT_GT(kept.node(drained).status().lent, 0U);
  outpost->end_reads(ticket);
  EXPECT_TRUE(empty_soon(kept, drained, {outpost.get()}));
  EXPECT_TRUE(has_seed(*outpost, runs, 1));
}

TEST_P(KeeperMoves, what_has_no_other_place_stays_and_is_said_to) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 2);
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 300);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  drain(kept, 0);
  ASSERT_TRUE(wait_until([&] { return outpost->tend(), kept.keeper().status().stuck; }));
  EXPECT_TRUE(has_seed_everywhere(*outpost, runs, 1, 2));
  EXPECT_GT(kept.node(0).status().lent, 0U);
  // Until it may stay.
  kept.node(0).limit(LendLimit::operator_word, UINT64_MAX);
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), !kept.keeper().status().stuck; }));
}

TEST_P(KeeperMoves, a_node_that_shrinks_keeps_the_rest) {
  Kept kept(GetParam(), 2 * TestNode::kMemory, 2, 1);
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 3000);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  const std::size_t smaller = first_node(kept, *outpost, runs);
  kept.node(smaller).limit(LendLimit::configuration, 4 << 20);
  EXPECT_TRUE(wait_until([&] {
    outpost->tend();
    const auto status = kept.node(smaller).status();
    return status.present == 1024;
  }));
  EXPECT_TRUE(has_seed(*outpost, runs, 1));
  EXPECT_LE(kept.node(smaller).status().lent, 1024U) << "all or some of what it may still lend";
}

// The node dies while it is being emptied: with one copy, what was moved is safe; with two, everything.
TEST_P(KeeperMoves, the_node_dies_half_way) {
  for (const std::uint32_t copies : {1U, 2U}) {
    Kept kept(GetParam(), 2 * TestNode::kMemory, copies + 1, copies);
    const auto outpost = kept.outpost();
    const auto runs = take_exactly(*outpost, 1500);
    ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
    const std::size_t drained = first_node(kept, *outpost, runs);
    drain(kept, drained);
    ASSERT_TRUE(wait_until([&] { return outpost->tend(), kept.keeper().status().moved > 0; }));
    const NodeId node = kept.pool().status()[drained].node;
    kept.stop_node(drained);
    for (const auto& run : runs) {
      const Location place = outpost->place_of(run.at(0));
      const bool was_moved = place.node != node;
      if (copies == 1 && !was_moved) continue;
      EXPECT_TRUE(wait_until([&] { return outpost->tend(), has_seed_at(*outpost, runs, run, 1); }));
    }
  }
}

// A process that is stopped delays its own pages only, and they leave when it goes on.
TEST_P(KeeperMoves, a_process_that_does_not_answer) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 1);
  const auto stopped = kept.outpost();
  const auto its = take_exactly(*stopped, 64);
  ASSERT_EQ(write_seed(*stopped, its, 1), Errc::ok);
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 500);
  ASSERT_EQ(write_seed(*outpost, runs, 2), Errc::ok);
  const std::size_t drained = first_node(kept, *outpost, runs);
  drain(kept, drained);
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), kept.pages_at(1 - drained, *outpost, runs) == 500; }));
  EXPECT_TRUE(has_seed(*outpost, runs, 2));
  EXPECT_TRUE(empty_soon(kept, drained, {outpost.get(), stopped.get()}));
  EXPECT_TRUE(has_seed(*stopped, its, 1));
}

// It has answered the seal and is stopped then: what it would read by its last look at the map stays as it is.
TEST_P(KeeperMoves, a_process_that_is_stopped_after_its_answer_finds_its_frames) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 1);
  const auto stopped = kept.outpost();
  const auto its = take_exactly(*stopped, 64);
  ASSERT_EQ(write_seed(*stopped, its, 1), Errc::ok);
  const Location place = stopped->place_of(its[0].at(0));
  const std::size_t drained = kept.number_of(place.node);
  drain(kept, drained);
  ASSERT_TRUE(wait_until([&] { return stopped->tend(), stopped->places_of(its[0].at(0)).count == 0; }));
  const std::uint32_t ticket = stopped->begin_reads();
  // The answer: the map says that they are sealed before the question comes, and it may have come already.
  ASSERT_TRUE(wait_until([&] { return kept.keeper().status().moved >= 64 || (stopped->tend(), false); }));
  std::vector<std::byte> page(kPageSize);
  for (const Deadline deadline(Millis(300)); !deadline.passed(); std::this_thread::sleep_for(Millis(10))) {
    const std::array segment{Segment{place.frame, 1, page.data()}};
    ASSERT_EQ(stopped->read(place.node, segment), Errc::ok);
    ASSERT_TRUE(page_is(page.data(), 1, 0));
  }
  stopped->end_reads(ticket);
  EXPECT_TRUE(empty_soon(kept, drained, {stopped.get()}));
  EXPECT_TRUE(has_seed(*stopped, its, 1));
}

// The keeper has ended its connection, and it does not know yet: its pages are where it believes them to be for as long
// as it can read.
TEST_P(KeeperMoves, a_process_that_the_keeper_has_given_up_reads_nothing_that_has_changed_hands) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 1);
  auto zombie = kept.outpost();
  const auto its = take_exactly(*zombie, 64);
  ASSERT_EQ(write_seed(*zombie, its, 1), Errc::ok);
  const std::size_t drained = first_node(kept, *zombie, its);
  ASSERT_EQ(::send(zombie->socket(), "nonsense", 8, MSG_NOSIGNAL), 8);
  ASSERT_TRUE(wait_until([&] { return kept.keeper().status().leaving == 1; }));
  const auto other = kept.outpost();
  const auto runs = take_exactly(*other, 500);
  ASSERT_EQ(write_seed(*other, runs, 2), Errc::ok);
  drain(kept, drained);
  for (const Deadline deadline(Millis(500)); !deadline.passed(); std::this_thread::sleep_for(Millis(10))) {
    other->tend();
    ASSERT_TRUE(has_seed(*zombie, its, 1));
  }
  EXPECT_GT(kept.node(drained).status().lent, 0U);
  zombie.reset();
  EXPECT_TRUE(empty_soon(kept, drained, {other.get()}));
  EXPECT_TRUE(has_seed(*other, runs, 2));
}

}  // namespace
}  // namespace comex::test

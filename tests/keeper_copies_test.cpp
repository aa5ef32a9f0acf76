// A keeper that keeps each page on several nodes: what is read when one of them goes, and that its copies are made
// again.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "support/kept.h"

namespace comex::test {
namespace {

class KeeperCopies : public testing::TestWithParam<Over> {
 protected:
  // Until more than `before` copies were made again, and every frame has all of them. Processes have to answer
  // meanwhile.
  static bool mended_soon(Kept& kept, const std::vector<Outpost*>& outposts, std::uint64_t before = 0) {
    return wait_until([&] {
      for (Outpost* const outpost : outposts) outpost->tend();
      return kept.keeper().status().thin == 0 && kept.keeper().status().mended > before;
    });
  }
  static std::set<std::uint16_t> nodes_of(const Outpost& outpost, const comex::Run& run) {
    const Places places = outpost.places_of(run.at(0));
    std::set<std::uint16_t> nodes;
    for (std::uint32_t i = 0; i < places.count; ++i) nodes.insert(places.at[i].node.value);
    return nodes;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, KeeperCopies, testing::Values(Over::shm, Over::tcp),
                         [](const auto& over) { return over_name(over.param); });

TEST_P(KeeperCopies, each_page_is_on_as_many_nodes) {
  for (const std::uint32_t copies : {2U, 3U}) {
    Kept kept(GetParam(), TestNode::kMemory, 3, copies);
    const auto outpost = kept.outpost();
    const auto runs = take_exactly(*outpost, 200);
    ASSERT_FALSE(runs.empty());
    for (const auto& run : runs) EXPECT_EQ(nodes_of(*outpost, run).size(), copies);
    EXPECT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
    EXPECT_TRUE(has_seed_everywhere(*outpost, runs, 1, copies));
  }
}

TEST_P(KeeperCopies, a_node_that_goes_takes_nothing_with_it) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 2);
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 300);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  kept.stop_node(1);
  for (const auto& run : runs) ASSERT_EQ(outpost->wait_until_readable(run.at(0), Deadline(kPatience)), Errc::ok);
  EXPECT_TRUE(wait_until([&] { return has_seed(*outpost, runs, 1); }));
  // There is only one node left: better one copy than none.
  // Frames that were for both cannot be written to: others are taken, as staging does.
  std::vector<comex::Run> more;
  ASSERT_TRUE(wait_until([&] {
    for (const auto& run : more) outpost->give_back(run);
    more = take_exactly(*outpost, 300);
    return !more.empty() && write_seed(*outpost, more, 2) == Errc::ok;
  }));
  EXPECT_TRUE(has_seed(*outpost, more, 2));
  // And when there is another again, all have two.
  kept.start_node(1);
  EXPECT_TRUE(mended_soon(kept, {outpost.get()}));
  EXPECT_TRUE(wait_until([&] {
    outpost->tend();
    return has_seed_everywhere(*outpost, runs, 1, 2) && has_seed_everywhere(*outpost, more, 2, 2);
  }));
}

TEST_P(KeeperCopies, lost_copies_are_made_again_elsewhere) {
  Kept kept(GetParam(), TestNode::kMemory, 3, 2);
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 500);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  const std::size_t gone = kept.number_of(outpost->place_of(runs[0].at(0)).node);
  kept.stop_node(gone);
  kept.start_node(gone);  // it remembers nothing
  EXPECT_TRUE(mended_soon(kept, {outpost.get()}));
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), has_seed_everywhere(*outpost, runs, 1, 2); }));
  // So another can go.
  const std::size_t next = kept.number_of(outpost->place_of(runs[0].at(0)).node);
  kept.stop_node(next);
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), has_seed(*outpost, runs, 1); }));
}

// One that never answers delays what it holds itself, and nothing else.
TEST_P(KeeperCopies, a_process_that_does_not_answer_delays_only_its_own) {
  Kept kept(GetParam(), TestNode::kMemory, 3, 2);
  const auto stopped = kept.outpost();
  const auto its = take_exactly(*stopped, 64);
  ASSERT_EQ(write_seed(*stopped, its, 1), Errc::ok);
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 1000);
  ASSERT_EQ(write_seed(*outpost, runs, 2), Errc::ok);
  const std::size_t gone = kept.number_of(outpost->place_of(runs[0].at(0)).node);
  kept.stop_node(gone);
  kept.start_node(gone);
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), has_seed_everywhere(*outpost, runs, 2, 2); }));
  EXPECT_TRUE(mended_soon(kept, {outpost.get(), stopped.get()}));
  EXPECT_TRUE(wait_until([&] { return stopped->tend(), has_seed_everywhere(*stopped, its, 1, 2); }));
}

// What it had on other nodes is theirs again; on the one that is away a write of it may still be under way.
TEST_P(KeeperCopies, a_process_that_dies_while_a_node_is_away_leaves_the_others_nothing) {
  Worker worker([](const Worker::Line& line, Outpost& outpost) {
    const auto runs = take_exactly(outpost, 300);
    line.say(write_seed(outpost, runs, 1) == Errc::ok);
    return static_cast<int>(line.hear());
  });
  Kept kept(GetParam(), TestNode::kMemory, 2, 2);
  worker.go(kept);
  ASSERT_EQ(worker.line().hear(), 1U);
  kept.stop_node(1);
  ASSERT_TRUE(wait_until([&] { return kept.pool().status()[1].state != MemberState::up; }));
  worker.kill();
  EXPECT_TRUE(kept.processes_soon(0));
  EXPECT_TRUE(wait_until([&] { return kept.in_use_at(0) == 0; }));
  if (GetParam() == Over::tcp) {
    EXPECT_EQ(kept.losses_of(1), 0U) << "its lease is not over: nothing waited for that; " << kept.why_lost(1);
  }
}

// Reads go to the copy that is clearly faster, and now and then to another, to see whether it is still slower.
TEST_P(KeeperCopies, reads_go_to_the_fastest) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 2);
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 1);
  const Location home = runs[0].at(0);
  const NodeId first = outpost->place_of(home).node;
  const Places places = outpost->places_of(home);
  ASSERT_EQ(places.count, 2U);
  const NodeId second = places.at[places.at[0].node == first ? 1 : 0].node;
  const auto measure = [&](NodeId node, std::int64_t us, int times) {
    for (int i = 0; i < times; ++i) outpost->saw_read(node, 1, Nanos(us * 1000));
  };
  measure(first, 100, 10);
  measure(second, 90, 10);
  EXPECT_EQ(outpost->place_of(home).node, first) << "not for so little";
  measure(first, 1000, 20);
  EXPECT_EQ(outpost->place_of(home).node, second);
  int others = 0;
  for (int i = 0; i < 5000; ++i) others += outpost->place_to_measure(home).node == first;
  EXPECT_GT(others, 0);
  EXPECT_LT(others, 50);
  measure(first, 20, 60);
  EXPECT_EQ(outpost->place_of(home).node, first);
}

// What is under way when a chunk is sealed is waited for; what begins later goes elsewhere.
TEST_P(KeeperCopies, no_copy_is_made_while_somebody_writes) {
  Kept kept(GetParam(), TestNode::kMemory, 3, 2);
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 64);
  const std::uint32_t ticket = outpost->begin_writes();
  ASSERT_EQ(outpost->places_of(runs[0].at(0)).count, 2U);
  const std::size_t gone = kept.number_of(outpost->place_of(runs[0].at(0)).node);
  kept.stop_node(gone);
  kept.start_node(gone);
  ASSERT_TRUE(wait_until([&] { return outpost->tend(), kept.keeper().status().thin > 0; }));
  for (const Deadline deadline(Millis(300)); !deadline.passed(); std::this_thread::sleep_for(Millis(5)))
    outpost->tend();
  EXPECT_EQ(kept.keeper().status().mended, 0U);
  outpost->end_writes(ticket);
  EXPECT_TRUE(mended_soon(kept, {outpost.get()}));
}

// Nodes 0 and 1 are of one domain, and 0 and 3 are full. So when 2 is lost, what 0 has can go nowhere, and what 3 has
// can go to 1.
TEST_P(KeeperCopies, what_has_no_other_place_does_not_delay_what_has_one) {
  KeptNodes nodes;
  nodes.configure = [](std::size_t node, ServerConfig& config) {
    config.lease = Millis(3'000);
    if (node == 1 || node == 2) config.memory = 4 * TestNode::kMemory;
  };
  nodes.way = [](std::size_t node, Url url) {
    if (node < 2) url.domain = "rack";
    return url;
  };
  Kept kept(GetParam(), TestNode::kMemory, 4, 2, {}, nodes);
  const auto is_up = [&](std::size_t node) { return kept.pool().status()[node].state == MemberState::up; };
  for (const std::size_t later : {1U, 3U}) {
    kept.stop_node(later);
    ASSERT_TRUE(wait_until([&] { return !is_up(later); }));
  }
  const auto outpost = kept.outpost();
  const auto is_at_2_and_3 = [&](const comex::Run& run) {
    std::set<std::size_t> at;
    for (const std::uint16_t node : nodes_of(*outpost, run)) at.insert(kept.number_of(NodeId{node}));
    return at == std::set<std::size_t>{2, 3};
  };
  // All there is, which is no less than that.
  const auto take_all = [&](auto&& enough) {
    std::vector<comex::Run> runs;
    EXPECT_TRUE(wait_until([&] {
      outpost->tend();
      while (const auto run = outpost->take(64)) runs.push_back(*run);
      return enough(runs) && kept.keeper().status().refused == 1;
    }));
    return runs;
  };
  const auto first = take_all([](const auto& runs) { return runs.size() >= 40; });
  kept.start_node(3);
  auto second = take_all([&](const auto& runs) { return std::count_if(runs.begin(), runs.end(), is_at_2_and_3) >= 5; });
  std::erase_if(second, [&](const comex::Run& run) { return !is_at_2_and_3(run); });
  ASSERT_GE(second.size(), 5U);
  kept.start_node(1);
  ASSERT_TRUE(wait_until([&] { return is_up(1); }));
  kept.stop_node(2);
  EXPECT_TRUE(wait_until([&] { return kept.losses_of(2) == 1; }));
  EXPECT_TRUE(wait_until([&] {
    outpost->tend();
    return std::all_of(second.begin(), second.end(),
                       [&](const comex::Run& run) { return nodes_of(*outpost, run).size() == 2; });
  }));
  EXPECT_GT(kept.keeper().status().thin, 2'000U);
}

// Two processes write, check and return while nodes come and go, one at a time.
TEST_P(KeeperCopies, one_node_after_the_other_is_lost) {
  Kept kept(GetParam(), 2 * TestNode::kMemory, 3, 2);
  const std::vector<OutpostOwner> outposts = [&] {
    std::vector<OutpostOwner> made;
    for (int i = 0; i < 2; ++i) made.push_back(kept.outpost());
    return made;
  }();
  std::vector<std::vector<std::vector<comex::Run>>> held(outposts.size());
  const auto all_have_two = [&] {
    for (const auto& outpost : outposts) outpost->tend();
    for (std::size_t o = 0; o < outposts.size(); ++o) {
      for (std::size_t seed = 0; seed < held[o].size(); ++seed) {
        if (!has_seed_everywhere(*outposts[o], held[o][seed], seed, 2)) return false;
      }
    }
    return true;
  };
  for (std::size_t round = 0; round < 6; ++round) {
    for (std::size_t o = 0; o < outposts.size(); ++o) {
      for (std::uint64_t i = 0; i < 4; ++i) {
        // As staging does: what cannot be written to all places goes to others.
        ASSERT_TRUE(wait_until([&] {
          const auto runs = take_exactly(*outposts[o], 40);
          if (!runs.empty() && write_seed(*outposts[o], runs, held[o].size()) == Errc::ok) {
            return held[o].push_back(runs), true;
          }
          for (const auto& run : runs) outposts[o]->give_back(run);
          return false;
        }));
      }
      for (const auto& run : held[o][round]) outposts[o]->give_back(run);
      held[o][round].clear();
    }
    // One at a time: what was written while a node did not answer has one copy at first. By the map, and by what each
    // process can reach: what the keeper says of itself may be older than the last loss.
    ASSERT_TRUE(wait_until(all_have_two)) << round;
    const std::uint64_t mended = kept.keeper().status().mended;
    bool used = false;
    for (std::size_t o = 0; o < outposts.size(); ++o) {
      for (const auto& runs : held[o]) used = used || kept.pages_at(round % 3, *outposts[o], runs) > 0;
    }
    kept.stop_node(round % 3);
    for (std::size_t o = 0; o < outposts.size(); ++o) {
      for (std::size_t seed = 0; seed < held[o].size(); ++seed) {
        EXPECT_TRUE(wait_until([&] { return outposts[o]->tend(), has_seed(*outposts[o], held[o][seed], seed); }));
      }
    }
    kept.start_node(round % 3);
    ASSERT_TRUE(wait_until(all_have_two)) << round;
    ASSERT_TRUE(!used || mended_soon(kept, {outposts[0].get(), outposts[1].get()}, mended)) << round;
  }
}

}  // namespace
}  // namespace comex::test

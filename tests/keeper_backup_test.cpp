// A keeper with a disk: what goes there, and what comes back.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <vector>

#include "support/kept.h"

namespace comex::test {
namespace {

constexpr std::uint32_t kFrames = TestNode::kMemory >> kPageShift;
constexpr NodeId kDisk = keeper_wire::kDisk;

class KeeperBackup : public testing::TestWithParam<Over> {
 protected:
  [[nodiscard]] KeeperConfig with_disk(std::uint64_t bytes = 64 << 20) const {
    KeeperConfig config;
    config.backup = BackupConfig{folder_.path("."), bytes};
    return config;
  }
  static std::uint32_t frames_at(const Outpost& outpost, const std::vector<comex::Run>& runs, NodeId node) {
    std::uint32_t frames = 0;
    for (const auto& run : runs) frames += outpost.place_of(run.at(0)).node == node ? run.count : 0;
    return frames;
  }

  static void drain(Kept& kept, std::size_t node) { kept.node(node).limit(LendLimit::operator_word, 0); }
  static bool is_empty(Kept& kept, std::size_t node) {
    const auto status = kept.node(node).status();
    return status.lent == 0 && status.present == 0;
  }
  // All that was written is on the disk, and so many pages were copied.
  static bool caught_up(const Kept& kept, std::uint64_t copied) {
    return wait_until([&] {
      const BackupStatus status = kept.keeper().status().backup;
      return status.copied >= copied && status.behind == 0;
    });
  }

  TestFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Over, KeeperBackup, testing::Values(Over::shm, Over::tcp),
                         [](const auto& over) { return over_name(over.param); });

TEST_P(KeeperBackup, a_full_pool_goes_on_to_the_disk) {
  Kept kept(GetParam(), TestNode::kMemory, 1, 1, with_disk());
  const auto outpost = kept.outpost();
  const auto first = take_exactly(*outpost, kFrames / 2);
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(frames_at(*outpost, first, kDisk), 0U) << "while the nodes have room";
  const auto rest = take_exactly(*outpost, kFrames);
  ASSERT_FALSE(rest.empty());
  EXPECT_GT(frames_at(*outpost, rest, kDisk), kFrames / 4);
  EXPECT_EQ(write_seed(*outpost, first, 1), Errc::ok);
  EXPECT_EQ(write_seed(*outpost, rest, 2), Errc::ok);
  EXPECT_TRUE(has_seed(*outpost, first, 1));
  EXPECT_TRUE(has_seed(*outpost, rest, 2));
  EXPECT_TRUE(wait_until([&] { return kept.keeper().status().on_disk >= kFrames / 4; }));
  for (const auto& run : rest) outpost->give_back(run);
  for (const auto& run : first) outpost->give_back(run);
  // What is at hand may be of the disk still.
  EXPECT_TRUE(wait_until([&] {
    outpost->tend();
    const auto run = outpost->take(64);
    if (run) outpost->give_back(*run);
    return run && outpost->place_of(run->at(0)).node != kDisk;
  })) << "when the nodes have room again";
}

TEST_P(KeeperBackup, the_disk_is_full_as_well) {
  Kept kept(GetParam(), TestNode::kMemory, 1, 1, with_disk(TestNode::kMemory));
  const auto outpost = kept.outpost();
  const auto all = take_exactly(*outpost, 2 * kFrames - 256);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(outpost->wait_for_frames(512, Deadline(Millis(200))), Errc::no_memory);
  outpost->give_back(all.front());
  EXPECT_EQ(outpost->wait_for_frames(all.front().count, Deadline(kPatience)), Errc::ok);
}

// What is given back there is not handed out again: whoever got it would give it back, again and again.
TEST_P(KeeperBackup, a_disk_that_failed_is_handed_out_no_more) {
  Kept kept(GetParam(), TestNode::kMemory, 1, 1, with_disk(TestNode::kMemory));
  const auto outpost = kept.outpost();
  std::vector<comex::Run> on_disk;
  std::vector<comex::Run> on_node;
  const auto take_all = [&] {
    outpost->tend();
    while (const auto run = outpost->take(64)) {
      (outpost->place_of(run->at(0)).node == kDisk ? on_disk : on_node).push_back(*run);
    }
  };
  ASSERT_TRUE(wait_until([&] { return take_all(), kept.keeper().status().refused == 1; }));
  ASSERT_FALSE(on_disk.empty());
  // As a process does that could not write there.
  struct {
    keeper_wire::Head head{keeper_wire::Type::lanes};
    keeper_wire::NodeRef which{kDisk, 0};
  } failed;
  ASSERT_EQ(::send(outpost->socket(), &failed, sizeof failed, MSG_NOSIGNAL), sizeof failed);
  ASSERT_TRUE(wait_until([&] { return !kept.keeper().status().backup.trouble.empty(); }));
  take_all();  // what was granted before that
  const std::uint64_t held = kept.keeper().status().used;
  std::uint64_t returned = 0;
  for (const auto& run : on_disk) {
    outpost->give_back(run.from(1));  // the rest of a chunk that is wanted
    returned += run.count - 1;
  }
  on_disk.clear();
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), kept.keeper().status().used < held - returned / 2; }));
  take_all();
  EXPECT_TRUE(on_disk.empty());
  outpost->give_back(on_node.front());
  EXPECT_EQ(outpost->wait_for_frames(1, Deadline(kPatience)), Errc::ok);
}

TEST_P(KeeperBackup, what_goes_to_the_disk_has_one_copy) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 2, with_disk());
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, kFrames + kFrames / 2);
  ASSERT_FALSE(runs.empty());
  EXPECT_GE(frames_at(*outpost, runs, kDisk), kFrames / 2);
  for (const auto& run : runs) {
    const Places places = outpost->places_of(run.at(0));
    EXPECT_EQ(places.count, places.at[0].node == kDisk ? 1U : 2U);
  }
  EXPECT_EQ(kept.keeper().status().thin, 0U);
}

TEST_P(KeeperBackup, a_child_has_what_is_on_the_disk) {
  Kept kept(GetParam(), TestNode::kMemory, 1, 1, with_disk());
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, kFrames + 512);
  ASSERT_EQ(write_seed(*outpost, runs, 3), Errc::ok);
  ASSERT_EQ(outpost->before_fork(Deadline(kPatience)), Errc::ok);
  ASSERT_EQ(outpost->after_fork_in_child(), Errc::ok);  // this process plays the child
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), has_seed(*outpost, runs, 3); }));
}

// --- copies of what nodes have ---

TEST_P(KeeperBackup, a_node_that_goes_leaves_its_pages_on_the_disk) {
  Kept kept(GetParam(), TestNode::kMemory, 1, 1, with_disk());
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 300);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  EXPECT_EQ(frames_at(*outpost, runs, kDisk), 0U) << "while the node is there";
  ASSERT_TRUE(caught_up(kept, 300));
  kept.stop_node();
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), has_seed(*outpost, runs, 1); }));
  EXPECT_EQ(frames_at(*outpost, runs, kDisk), 300U);
  // What is new goes there as well.
  std::vector<comex::Run> more;
  ASSERT_TRUE(wait_until([&] {
    for (const auto& run : more) outpost->give_back(run);
    more = take_exactly(*outpost, 300);
    return !more.empty() && write_seed(*outpost, more, 2) == Errc::ok;
  }));
  EXPECT_TRUE(has_seed(*outpost, more, 2));
  // And all of it to the node that comes in its place.
  kept.start_node();
  EXPECT_TRUE(wait_until([&] {
    outpost->tend();
    return frames_at(*outpost, runs, kDisk) == 0 && has_seed(*outpost, runs, 1) && has_seed(*outpost, more, 2);
  }));
  EXPECT_GT(kept.keeper().status().moved_back, 0U);
}

TEST_P(KeeperBackup, a_drained_node_without_another_leaves_its_pages_to_the_disk) {
  Kept kept(GetParam(), TestNode::kMemory, 1, 1, with_disk());
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 700);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  kept.node(0).limit(LendLimit::operator_word, 0);
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), kept.node(0).status().present == 0; }));
  EXPECT_FALSE(kept.keeper().status().stuck);
  EXPECT_EQ(frames_at(*outpost, runs, kDisk), 700U);
  EXPECT_TRUE(has_seed(*outpost, runs, 1));
  const auto more = take_exactly(*outpost, 300);
  ASSERT_EQ(write_seed(*outpost, more, 2), Errc::ok);
  // Back to it, when it lends again.
  kept.node(0).limit(LendLimit::operator_word, UINT64_MAX);
  EXPECT_TRUE(wait_until([&] {
    outpost->tend();
    return frames_at(*outpost, runs, kDisk) == 0 && has_seed(*outpost, runs, 1) && has_seed(*outpost, more, 2);
  }));
}

TEST_P(KeeperBackup, pages_move_to_other_nodes_and_their_copies_stay_right) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 1, with_disk());
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 300);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  for (std::uint64_t round = 0; round < 3; ++round) {
    ASSERT_TRUE(caught_up(kept, 300 * (round == 0)));
    const std::size_t gone = kept.number_of(outpost->place_of(runs[0].at(0)).node);
    kept.stop_node(gone);
    EXPECT_TRUE(wait_until([&] { return outpost->tend(), has_seed(*outpost, runs, 1); }));
    kept.start_node(gone);
    ASSERT_TRUE(wait_until([&] { return outpost->tend(), frames_at(*outpost, runs, kDisk) == 0; })) << round;
    EXPECT_TRUE(has_seed(*outpost, runs, 1));
  }
}

// The home has had a page that is on the disk. It is another's by now.
TEST_P(KeeperBackup, what_is_not_on_the_disk_is_lost_and_not_another_page) {
  Kept kept(GetParam(), TestNode::kMemory, 1, 1, with_disk());
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 64);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  ASSERT_TRUE(caught_up(kept, 64));
  const comex::Run old{kHome, runs.front().first, 1};
  outpost->give_back(old);
  // The same home again, and written again, but not said to be.
  std::vector<comex::Run> again;
  ASSERT_TRUE(wait_until([&] {
    const auto run = outpost->take(1);
    if (!run) return outpost->tend(), false;
    again.push_back(*run);
    return run->first == old.first;
  }));
  alignas(kPageSize) std::array<std::byte, kPageSize> page{};
  const Location place = outpost->place_of(old.at(0));
  const std::array segment{Segment{place.frame, 1, page.data()}};
  ASSERT_EQ(outpost->write(place.node, segment), Errc::ok);
  kept.stop_node();
  kept.start_node();  // which knows nothing
  // Before it has heard that the node was away, there is nothing to wait for.
  EXPECT_TRUE(wait_until([&] { return outpost->wait_until_readable(old.at(0), Deadline(kPatience)) == Errc::fenced; }));
  EXPECT_NE(outpost->place_of(old.at(0)).node, kDisk);
  const comex::Run last = runs.back();
  EXPECT_EQ(outpost->place_of(last.at(last.count - 1)).node, kDisk) << "its neighbours are there";
}

// --- where there should be several copies ---

// The disk stands in for the node that wants its memory back, until there is a node again.
TEST_P(KeeperBackup, a_drained_node_of_as_many_as_there_are_copies_leaves_its_copies_to_the_disk) {
  for (const std::uint32_t copies : {2U, 3U}) {
    Kept kept(GetParam(), TestNode::kMemory, copies, copies, with_disk());
    const auto outpost = kept.outpost();
    const auto runs = take_exactly(*outpost, 700);
    ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
    drain(kept, 0);
    EXPECT_TRUE(wait_until([&] { return outpost->tend(), is_empty(kept, 0); })) << copies;
    EXPECT_FALSE(kept.keeper().status().stuck);
    EXPECT_EQ(frames_at(*outpost, runs, kDisk), 0U) << "the other nodes are faster";
    EXPECT_TRUE(has_seed_everywhere(*outpost, runs, 1, copies - 1));
    // Again on a node when it lends again, and then no more on the disk.
    kept.node(0).limit(LendLimit::operator_word, UINT64_MAX);
    EXPECT_TRUE(wait_until([&] { return outpost->tend(), has_seed_everywhere(*outpost, runs, 1, copies); })) << copies;
    EXPECT_TRUE(wait_until([&] { return outpost->tend(), kept.keeper().status().backup.used == 0; })) << copies;
    EXPECT_EQ(kept.keeper().status().thin, 0U);
    EXPECT_TRUE(has_seed(*outpost, runs, 1));
  }
}

TEST_P(KeeperBackup, the_disk_that_stands_in_for_a_node_has_every_page) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 2, with_disk());
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 300);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  drain(kept, 0);
  ASSERT_TRUE(wait_until([&] { return outpost->tend(), is_empty(kept, 0); }));
  kept.stop_node(1);
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), has_seed(*outpost, runs, 1); }));
  EXPECT_EQ(frames_at(*outpost, runs, kDisk), 300U);
}

// It stands in for one node, and not for two.
TEST_P(KeeperBackup, what_is_on_one_node_and_the_disk_stays_on_the_node) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 2, with_disk());
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 300);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  drain(kept, 0);
  ASSERT_TRUE(wait_until([&] { return outpost->tend(), is_empty(kept, 0); }));
  drain(kept, 1);
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), kept.keeper().status().stuck; }));
  EXPECT_EQ(kept.pages_at(1, *outpost, runs), 300U);
  EXPECT_TRUE(has_seed(*outpost, runs, 1));
}

// Whichever of the two goes before the disk has everything.
TEST_P(KeeperBackup, a_node_dies_while_the_disk_takes_the_place_of_one) {
  for (const std::size_t dies : {0U, 1U}) {
    Kept kept(GetParam(), TestNode::kMemory, 2, 2, with_disk());
    const auto outpost = kept.outpost();
    const auto runs = take_exactly(*outpost, 2'000);
    ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
    drain(kept, 0);
    ASSERT_TRUE(wait_until([&] { return outpost->tend(), kept.keeper().status().backup.copied > 100; }));
    kept.stop_node(dies);
    EXPECT_TRUE(has_seed_in_time(*outpost, runs, 1)) << dies;
    kept.start_node(dies);
    EXPECT_TRUE(wait_until([&] { return outpost->tend(), has_seed(*outpost, runs, 1); })) << dies;
  }
}

TEST_P(KeeperBackup, two_copies_need_no_third) {
  Kept kept(GetParam(), TestNode::kMemory, 2, 2, with_disk());
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 300);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  ASSERT_TRUE(wait_until([&] { return kept.keeper().status().backup.behind == 300; }));
  EXPECT_EQ(kept.keeper().status().backup.used, 0U);
}

}  // namespace
}  // namespace comex::test

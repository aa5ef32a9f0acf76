// A keeper whose nodes pull pages from each other when they are moved or copied again: what goes through the keeper
// then, and what happens when one of them cannot. See "Straight from node to node" in docs/design-notes.md.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "support/kept.h"
#include "support/pages.h"
#include "support/proxy.h"

namespace comex::test {
namespace {

constexpr std::uint32_t kDrainedPages = 700;

class KeeperStraight : public testing::Test {
 protected:
  void begin(Kept& kept, std::uint32_t pages = kDrainedPages) {
    outpost_ = kept.outpost();
    runs_ = take_exactly(*outpost_, pages);
    ASSERT_EQ(write_seed(*outpost_, runs_, 1), Errc::ok);
    drained_ = kept.number_of(outpost_->place_of(runs_[0].at(0)).node);
  }
  void drain(Kept& kept) const { kept.node(drained_).limit(LendLimit::operator_word, 0); }
  bool empty_soon(Kept& kept) {
    return wait_until([&] {
      outpost_->tend();
      return kept.node(drained_).status().lent == 0;
    });
  }
  // All but the drained one.
  template <typename F>
  std::uint64_t sum(Kept& kept, std::size_t nodes, F&& of) const {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < nodes; ++i) {
      if (i != drained_) total += of(kept.node(i).status());
    }
    return total;
  }
  static std::uint64_t pulled(const wire::StatusReply& status) { return status.pages_pulled.value_or(0); }
  static std::uint64_t written(const wire::StatusReply& status) { return status.pages_written; }

  OutpostOwner outpost_;
  std::vector<comex::Run> runs_;
  std::size_t drained_ = 0;
};

// Each page that leaves is read once, by the node that gets it; nothing is written by anybody else.
TEST_F(KeeperStraight, a_drained_nodes_pages_do_not_come_through_the_keeper) {
  for (const std::uint32_t copies : {1U, 2U}) {
    Kept kept(Over::tcp, TestNode::kMemory, 3, copies);
    begin(kept);
    const std::uint64_t written_before = sum(kept, 3, written);
    const std::uint64_t read_before = kept.node(drained_).status().pages_read;
    drain(kept);
    ASSERT_TRUE(empty_soon(kept));
    const KeeperStatus status = kept.keeper().status();
    EXPECT_GT(status.moved, 0U);
    EXPECT_EQ(status.straight, status.moved);
    EXPECT_EQ(sum(kept, 3, pulled), status.moved);
    EXPECT_EQ(sum(kept, 3, written), written_before) << "the keeper's links carried no page there";
    if (copies == 1) {
      EXPECT_EQ(kept.node(drained_).status().pages_read, read_before + status.moved);
    }
    EXPECT_TRUE(has_seed_everywhere(*outpost_, runs_, 1, copies));
    outpost_.reset();
  }
}

TEST_F(KeeperStraight, a_lost_copy_is_made_again_straight) {
  Kept kept(Over::tcp, TestNode::kMemory, 3, 2);
  begin(kept);
  const std::uint64_t written_before = sum(kept, 3, written);
  kept.stop_node(drained_);
  kept.start_node(drained_);
  ASSERT_TRUE(wait_until([&] {
    outpost_->tend();
    const KeeperStatus status = kept.keeper().status();
    return status.thin == 0 && status.mended > 0;
  }));
  EXPECT_EQ(kept.keeper().status().straight, kept.keeper().status().mended);
  EXPECT_EQ(sum(kept, 3, written), written_before);
  EXPECT_TRUE(has_seed_everywhere(*outpost_, runs_, 1, 2));
}

// A row that only moves is moved as it is.
TEST_F(KeeperStraight, a_row_of_a_coded_chunk) {
  Kept kept(Over::tcp, TestNode::kMemory, 4, Code{2, 1});
  begin(kept);
  drain(kept);
  ASSERT_TRUE(empty_soon(kept));
  EXPECT_GT(kept.keeper().status().straight, 0U);
  EXPECT_TRUE(has_seed(*outpost_, runs_, 1));
}

TEST_F(KeeperStraight, not_on_shared_memory) {
  Kept kept(Over::shm, TestNode::kMemory, 2, 1);
  begin(kept);
  drain(kept);
  ASSERT_TRUE(empty_soon(kept));
  EXPECT_EQ(kept.keeper().status().straight, 0U);
  EXPECT_TRUE(has_seed(*outpost_, runs_, 1));
}

TEST_F(KeeperStraight, older_nodes_are_not_asked) {
  KeptNodes older;
  older.configure = [](std::size_t, ServerConfig& config) { config.version = 2; };
  Kept kept(Over::tcp, TestNode::kMemory, 2, 1, {}, older);
  begin(kept);
  const std::uint64_t link = kept.pool().enter(kept.pool().status()[drained_].node)->number();
  drain(kept);
  ASSERT_TRUE(empty_soon(kept));
  EXPECT_EQ(kept.keeper().status().straight, 0U);
  EXPECT_TRUE(has_seed(*outpost_, runs_, 1));
  EXPECT_EQ(kept.pool().enter(kept.pool().status()[drained_].node)->number(), link) << "no link broke over it";
}

// Tried once, and then done without.
TEST_F(KeeperStraight, a_node_that_the_others_cannot_reach) {
  std::vector<std::unique_ptr<RecordingProxy>> proxies;
  KeptNodes behind;
  behind.way = [&](std::size_t, const Url& url) {
    return proxies.emplace_back(std::make_unique<RecordingProxy>(url))->url();
  };
  Kept kept(Over::tcp, TestNode::kMemory, 2, 1, {}, behind);
  begin(kept);
  // Its lanes to the other come when it first has something there.
  ASSERT_TRUE(wait_until([&] { return outpost_->tend(), kept.node(1 - drained_).status().client_count == 1; }));
  proxies[drained_]->refuse();
  drain(kept);
  ASSERT_TRUE(empty_soon(kept));
  EXPECT_EQ(kept.keeper().status().straight, 0U);
  EXPECT_EQ(pulled(kept.node(1 - drained_).status()), 0U);
  EXPECT_GE(kept.node(1 - drained_).status().pages_written, kDrainedPages);
  EXPECT_TRUE(has_seed(*outpost_, runs_, 1));
}

KeeperConfig slowly() {
  KeeperConfig config;
  config.mend_rate = 16 << 20;
  return config;
}

TEST_F(KeeperStraight, the_source_dies_half_way) {
  Kept kept(Over::tcp, 2 * TestNode::kMemory, 3, 2, slowly());
  begin(kept, 1500);
  drain(kept);
  ASSERT_TRUE(wait_until([&] { return outpost_->tend(), kept.keeper().status().straight > 0; }));
  kept.stop_node(drained_);
  EXPECT_TRUE(wait_until([&] { return outpost_->tend(), has_seed_in_time(*outpost_, runs_, 1); }));
}

TEST_F(KeeperStraight, the_target_dies_half_way) {
  Kept kept(Over::tcp, 2 * TestNode::kMemory, 2, 1, slowly());
  begin(kept, 1500);
  const std::size_t target = 1 - drained_;
  drain(kept);
  ASSERT_TRUE(wait_until([&] { return outpost_->tend(), kept.keeper().status().straight > 0; }));
  const NodeId source = kept.pool().status()[drained_].node;
  kept.stop_node(target);
  // What has not left is where it was, and right.
  for (const auto& run : runs_) {
    if (outpost_->place_of(run.at(0)).node != source) continue;
    EXPECT_TRUE(wait_until([&] { return outpost_->tend(), has_seed_at(*outpost_, runs_, run, 1); }));
  }
  // A new one in its place gets the rest.
  kept.start_node(target);
  EXPECT_TRUE(empty_soon(kept));
}

TEST_F(KeeperStraight, there_and_back_again) {
  Kept kept(Over::tcp, 2 * TestNode::kMemory, 2, 1);
  begin(kept);
  for (int i = 0; i < 4; ++i) {
    kept.node(1 - drained_).limit(LendLimit::operator_word, UINT64_MAX);
    drain(kept);
    ASSERT_TRUE(empty_soon(kept));
    EXPECT_TRUE(has_seed(*outpost_, runs_, 1));
    drained_ = 1 - drained_;
  }
  EXPECT_EQ(kept.keeper().status().straight, kept.keeper().status().moved);
}

}  // namespace
}  // namespace comex::test

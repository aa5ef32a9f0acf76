// A keeper whose nodes pull pages from each other when they are moved or copied again: what goes through the keeper
// then, and what happens when one of them cannot. See "Straight from node to node" in docs/design-notes.md.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/kept.h"
#include "support/pages.h"
#include "support/proxy.h"

namespace comex::test {
namespace {

constexpr std::uint32_t kDrainedPages = 700;
constexpr std::uint32_t kHeldUpPages = 2 * kChunkFrames;  // few: all is over before the node gives up

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

// Of this machine, and not a loopback one.
std::optional<std::string> outer_address() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    const bool fits = at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET && (at->ifa_flags & IFF_UP) != 0 &&
                      (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (!fits) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    if (::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size()) != nullptr) return text.data();
  }
  return std::nullopt;
}

// The keeper comes to one node as from another machine, and to the other by a loopback address. Of that the first will
// not hear; the other way round nothing is in the way.
TEST_F(KeeperStraight, a_loopback_address_is_refused_by_a_node_elsewhere) {
  const auto address = outer_address();
  if (!address) GTEST_SKIP() << "this machine has no address but loopback ones";
  constexpr std::size_t kHere = 0;
  constexpr std::size_t kElsewhere = 1;
  KeptNodes apart;
  apart.configure = [&](std::size_t node, ServerConfig& config) {
    if (node == kElsewhere) config.listen = *address + ":0";
  };
  Kept kept(Over::tcp, TestNode::kMemory, 2, 1, {}, apart);
  begin(kept);
  drained_ = kElsewhere;
  drain(kept);
  ASSERT_TRUE(empty_soon(kept));
  const KeeperStatus before = kept.keeper().status();
  EXPECT_EQ(before.straight, before.moved) << "from elsewhere to here";
  kept.node(kElsewhere).limit(LendLimit::operator_word, UINT64_MAX);
  drained_ = kHere;
  drain(kept);
  ASSERT_TRUE(empty_soon(kept));
  const KeeperStatus after = kept.keeper().status();
  EXPECT_GE(after.moved, before.moved + kDrainedPages);
  EXPECT_EQ(after.straight, before.straight);
  EXPECT_EQ(pulled(kept.node(kElsewhere).status()), 0U);
  EXPECT_GE(kept.node(kElsewhere).status().pages_written, kDrainedPages);
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

// Nodes behind proxies. The pages of the first pull are held up on their way until they are let go; the node that pulls
// waits for 2 s.
class KeeperStraightHeldUp : public KeeperStraight {
 protected:
  void begin_behind_proxies(std::size_t nodes, std::uint32_t copies, const KeeperConfig& config) {
    KeptNodes behind;
    behind.way = [this](std::size_t, const Url& url) {
      return proxies_.emplace_back(std::make_unique<RecordingProxy>(url))->url();
    };
    kept_ = std::make_unique<Kept>(Over::tcp, TestNode::kMemory, nodes, copies, config, behind);
    begin(*kept_, kHeldUpPages);
  }
  // All pages are on one of two nodes.
  void begin_with_two(const KeeperConfig& config = {}) {
    begin_behind_proxies(2, 1, config);
    ASSERT_EQ(kept_->pages_at(drained_, *outpost_, runs_), kHeldUpPages);
    ASSERT_TRUE(wait_until([&] { return (link_ = link_to_target()) != 0; }));
  }
  void hold_up_first_pull() {
    proxies_[drained_]->hold_newcomers();
    drain(*kept_);
    constexpr std::size_t kNearlyAll = (kChunkFrames - 1) * kPageSize;
    ASSERT_TRUE(wait_until([&] { return outpost_->tend(), proxies_[drained_]->held_up() >= kNearlyAll; }));
  }
  void let_go() { proxies_[drained_]->let_go(); }
  // --- with two ---
  [[nodiscard]] std::size_t target() const { return 1 - drained_; }
  LinkGate::Pass enter_target() { return kept_->pool().enter(kept_->pool().status()[target()].node); }
  std::uint64_t link_to_target() {
    const auto link = enter_target();
    return link ? link->number() : 0;
  }
  // The target takes another pull of this session: the last, of whichever coming, is over.
  bool is_over_soon() {
    return wait_until([&] {
      const auto link = enter_target();
      if (!link) return false;
      wire::Pull nonsense;
      nonsense.from = *link->node().address;
      nonsense.source = nonsense.target = {Extent{FrameNo{0}, 1}};
      return link->pull(nonsense).has_value();
    });
  }
  bool writes_soon(std::uint64_t seed) {
    return wait_until([&] { return outpost_->tend(), write_seed(*outpost_, runs_, seed) == Errc::ok; });
  }
  // What was asked for before the session resumed lands nowhere, and what was to be moved has been, in another way:
  // pages that are written now stay as they are when those that were held up come.
  void expect_moved_otherwise() {
    ASSERT_TRUE(empty_soon(*kept_));
    ASSERT_TRUE(has_seed_in_time(*outpost_, runs_, 1));
    ASSERT_TRUE(writes_soon(2));
    let_go();
    ASSERT_TRUE(is_over_soon());
    EXPECT_TRUE(has_seed_in_time(*outpost_, runs_, 2));
    EXPECT_EQ(pulled(kept_->node(target()).status()), 0U);
    EXPECT_EQ(kept_->keeper().status().straight, 0U);
    EXPECT_GE(kept_->keeper().status().moved, kHeldUpPages);
    expect_no_place_is_left_behind();
  }

  // The pull that was held up is of a whole chunk: a place that was forgotten is as large. A smaller one may remain,
  // made for a process while the link was renewed and not yet used: it is for whoever comes next.
  void expect_no_place_is_left_behind() {
    outpost_.reset();
    for (std::size_t i = 0; i < proxies_.size(); ++i) {
      EXPECT_TRUE(wait_until([&] { return kept_->in_use_at(i) < kChunkFrames; })) << kept_->in_use_at(i) << " at " << i;
    }
  }
  void TearDown() override {
    outpost_.reset();
    kept_.reset();
  }

  std::vector<std::unique_ptr<RecordingProxy>> proxies_;
  std::unique_ptr<Kept> kept_;
  std::uint64_t link_ = 0;  // to the target, in the beginning
};

TEST_F(KeeperStraightHeldUp, the_targets_session_resumes) {
  ASSERT_NO_FATAL_FAILURE(begin_with_two());
  ASSERT_NO_FATAL_FAILURE(hold_up_first_pull());
  kept_->pool().renew_link(kept_->pool().status()[target()].node, link_);
  expect_moved_otherwise();
}

TEST_F(KeeperStraightHeldUp, the_connections_to_the_target_break) {
  ASSERT_NO_FATAL_FAILURE(begin_with_two());
  ASSERT_NO_FATAL_FAILURE(hold_up_first_pull());
  proxies_[target()]->cut();
  expect_moved_otherwise();
}

// The keeper does not know what became of it, and sees to it that nothing will any more.
TEST_F(KeeperStraightHeldUp, one_that_does_not_end_is_ended_by_resuming) {
  KeeperConfig impatient;
  impatient.pulls.patience = Millis(20);
  ASSERT_NO_FATAL_FAILURE(begin_with_two(impatient));
  ASSERT_NO_FATAL_FAILURE(hold_up_first_pull());
  ASSERT_TRUE(wait_until([&] { return outpost_->tend(), link_to_target() > link_; }));
  expect_moved_otherwise();
}

TEST_F(KeeperStraightHeldUp, the_target_ends) {
  ASSERT_NO_FATAL_FAILURE(begin_with_two());
  ASSERT_NO_FATAL_FAILURE(hold_up_first_pull());
  kept_->stop_node(target());
  EXPECT_TRUE(has_seed_in_time(*outpost_, runs_, 1));
  EXPECT_EQ(kept_->pages_at(drained_, *outpost_, runs_), kHeldUpPages);
  let_go();
  kept_->start_node(target());
  ASSERT_TRUE(empty_soon(*kept_));
  EXPECT_TRUE(has_seed_in_time(*outpost_, runs_, 1));
  expect_no_place_is_left_behind();
}

TEST_F(KeeperStraightHeldUp, the_source_ends) {
  ASSERT_NO_FATAL_FAILURE(begin_behind_proxies(3, 2, {}));
  ASSERT_NO_FATAL_FAILURE(hold_up_first_pull());
  kept_->stop_node(drained_);
  let_go();
  ASSERT_TRUE(wait_until([&] {
    outpost_->tend();
    return kept_->keeper().status().thin == 0 && has_seed_everywhere(*outpost_, runs_, 1, 2);
  }));
  expect_no_place_is_left_behind();
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

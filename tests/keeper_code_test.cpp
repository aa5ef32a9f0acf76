// A keeper whose pages are coded across nodes, and staging on it: what is read when nodes go, and that what they had is
// made again.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "pool/staging.h"
#include "support/kept.h"
#include "support/pages.h"

namespace comex::test {
namespace {

struct Case {
  Over over;
  Code code;
};

// Pages of one process, each of a version that its tag and the count of its changes say.
class CodedPages {
 public:
  explicit CodedPages(Outpost& outpost)
      : outpost_(outpost), staging_(*Staging::create(outpost, {}, [this](Tag tag, Location home) {
          const std::lock_guard lock(mutex_);
          homes_[tag] = home;
        })) {}

  // As the pager does: the page that was there is given up when it is written anew.
  [[nodiscard]] bool write(const std::vector<Tag>& tags) {
    alignas(kPageSize) std::array<std::byte, kPageSize> page;
    for (const Tag tag : tags) {
      forget(tag);
      fill_page(page.data(), ++versions_[tag], tag);
      while (!staging_->put(tag, page.data())) {
        if (!settle()) return false;
      }
    }
    return settle();
  }
  void forget(Tag tag) {
    const std::lock_guard lock(mutex_);
    const auto found = homes_.find(tag);
    if (found == homes_.end()) return;
    outpost_.give_back({found->second.node, found->second.frame, 1});
    homes_.erase(found);
  }
  // Until all that was put has landed.
  [[nodiscard]] bool settle() {
    return wait_until([&] {
      outpost_.tend();
      return staging_->drain(Deadline(Millis(10))) == Errc::ok;
    });
  }
  [[nodiscard]] bool are_right() {
    for (const auto& [tag, home] : homes_) {
      if (!is_right(tag, outpost_.place_of(home))) return false;
    }
    return true;
  }
  // Also by way of the other nodes, for each page.
  [[nodiscard]] bool are_right_both_ways() {
    for (const auto& [tag, home] : homes_) {
      const Places places = outpost_.readable_places(home);
      if (places.count != 2 || places.at[1].node != kMade) return false;
      if (!is_right(tag, places.at[0]) || !is_right(tag, places.at[1])) return false;
    }
    return true;
  }
  [[nodiscard]] std::uint64_t made() const {
    std::uint64_t count = 0;
    for (const auto& [tag, home] : homes_) count += outpost_.place_of(home).node == kMade;
    return count;
  }
  // Those that are there, and those that can be read.
  [[nodiscard]] std::uint64_t at(NodeId node) const {
    std::uint64_t count = 0;
    for (const auto& [tag, home] : homes_) count += outpost_.place_of(home).node == node;
    return count;
  }
  [[nodiscard]] std::uint64_t right() {
    std::uint64_t count = 0;
    for (const auto& [tag, home] : homes_) count += is_right(tag, outpost_.place_of(home));
    return count;
  }
  [[nodiscard]] std::size_t size() const { return homes_.size(); }
  [[nodiscard]] const std::map<Tag, Location>& homes() const { return homes_; }

 private:
  [[nodiscard]] bool is_right(Tag tag, Location place) {
    alignas(kPageSize) std::array<std::byte, kPageSize> page;
    const std::array segment{Segment{place.frame, 1, page.data()}};
    return outpost_.read(place.node, segment) == Errc::ok && page_is(page.data(), versions_.at(tag), tag);
  }

  Outpost& outpost_;
  std::mutex mutex_;
  std::map<Tag, Location> homes_;
  std::map<Tag, std::uint64_t> versions_;
  std::unique_ptr<Staging> staging_;  // last: writes to the above
};

std::vector<Tag> tags(Tag first, Tag count) {
  std::vector<Tag> some;
  for (Tag tag = first; tag < first + count; ++tag) some.push_back(tag);
  return some;
}

class KeeperCode : public testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] static Code code() { return GetParam().code; }
  static bool mended_soon(Kept& kept, Outpost& outpost, std::uint64_t before = 0) {
    return wait_until([&] {
      outpost.tend();
      return kept.keeper().status().thin == 0 && kept.keeper().status().mended > before;
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Codes, KeeperCode, testing::Values(Case{Over::shm, {4, 1}}, Case{Over::tcp, {3, 2}}),
                         [](const auto& param) {
                           return over_name(param.param.over) + "_" + std::to_string(param.param.code.data) + "_and_" +
                                  std::to_string(param.param.code.parity);
                         });

TEST_P(KeeperCode, pages_come_back_as_they_left_and_by_way_of_the_others) {
  Kept kept(GetParam().over, TestNode::kMemory, code().nodes(), code());
  const auto outpost = kept.outpost();
  CodedPages pages(*outpost);
  ASSERT_TRUE(pages.write(tags(0, 300)));
  ASSERT_TRUE(pages.write(tags(300, 1)));  // a column with one page
  ASSERT_TRUE(pages.write(tags(301, 7)));
  EXPECT_EQ(pages.size(), 308U);
  EXPECT_TRUE(pages.are_right_both_ways());
}

TEST_P(KeeperCode, neighbours_are_together_on_as_many_nodes_as_there_are) {
  Kept kept(GetParam().over, TestNode::kMemory, code().nodes(), code());
  const auto outpost = kept.outpost();
  CodedPages pages(*outpost);
  const std::uint32_t whole = code().round_down(kBatchPages);
  ASSERT_TRUE(pages.write(tags(0, whole)));
  std::set<std::uint16_t> nodes;
  std::uint32_t together = 0;
  for (Tag tag = 0; tag < whole; ++tag) {
    const Location place = outpost->place_of(pages.homes().at(tag));
    nodes.insert(place.node.value);
    if (tag > 0) {
      const Location before = outpost->place_of(pages.homes().at(tag - 1));
      together += place.node == before.node && place.frame.value == before.frame.value + 1;
    }
  }
  EXPECT_EQ(nodes.size(), code().data);
  EXPECT_EQ(together, whole - code().data);
}

// Rows take turns: each node has data and parity.
TEST_P(KeeperCode, a_node_is_lost_and_what_it_had_is_made_again) {
  Kept kept(GetParam().over, TestNode::kMemory, code().nodes(), code());
  const auto outpost = kept.outpost();
  CodedPages pages(*outpost);
  ASSERT_TRUE(pages.write(tags(0, 500)));
  kept.stop_node(3);
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), pages.made() > 0 && pages.are_right(); }));
  // Without it there is less parity: better than none of it.
  ASSERT_TRUE(pages.write(tags(1000, 100)));
  EXPECT_TRUE(pages.are_right());
  const std::uint64_t mended = kept.keeper().status().mended;
  kept.start_node(3);
  ASSERT_TRUE(mended_soon(kept, *outpost, mended));
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), pages.are_right_both_ways(); }));
  EXPECT_EQ(pages.made(), 0U);
}

TEST_P(KeeperCode, as_many_nodes_as_there_is_parity_are_lost_at_once) {
  Kept kept(GetParam().over, TestNode::kMemory, code().nodes(), code());
  const auto outpost = kept.outpost();
  CodedPages pages(*outpost);
  ASSERT_TRUE(pages.write(tags(0, 500)));
  for (std::size_t node = 0; node < code().parity; ++node) kept.stop_node(node);
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), pages.are_right(); }));
  // One more is too many: then the pages that they had are lost, and others are not.
  kept.stop_node(code().parity);
  for (std::size_t node = 0; node <= code().parity; ++node) kept.start_node(node);
  const auto count_lost = [&] {
    std::size_t lost = 0;
    for (const auto& [tag, home] : pages.homes()) {
      lost += outpost->wait_until_readable(home, Deadline(Millis(0))) == Errc::fenced;
    }
    return lost;
  };
  ASSERT_TRUE(wait_until([&] { return count_lost() > 0; }));
  EXPECT_LT(count_lost(), pages.size());
}

// What is left of chunks that have lost too much has places on nodes that are gone for good, and leaves the others as
// any chunk does.
TEST_P(KeeperCode, a_node_is_drained_after_more_than_there_is_parity_for_are_lost) {
  Kept kept(GetParam().over, TestNode::kMemory, code().nodes() + 1, code());
  const auto outpost = kept.outpost();
  CodedPages pages(*outpost);
  ASSERT_TRUE(pages.write(tags(0, 1'000)));
  std::vector<std::size_t> lost;
  std::size_t drained = 0;
  for (std::size_t node = 0; node < code().nodes() + 1; ++node) {
    if (kept.in_use_at(node) == 0) continue;
    drained = node;
    if (lost.size() < code().parity + 2U) lost.push_back(node);
  }
  for (const std::size_t node : lost) kept.stop_node(node);
  for (const std::size_t node : lost) kept.start_node(node);
  ASSERT_TRUE(wait_until([&] {
    outpost->tend();
    return std::all_of(lost.begin(), lost.end(), [&](std::size_t node) { return kept.losses_of(node) == 1; });
  }));
  const std::uint64_t left = pages.at(kept.pool().status()[drained].node);
  ASSERT_GT(left, 0U);
  kept.node(drained).limit(LendLimit::operator_word, 0);
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), kept.node(drained).status().lent == 0; }));
  EXPECT_GE(pages.right(), left);
}

// Pages are written anew at random, and given up, while nodes are lost one after the other: no column is used again
// while a page of it is needed.
TEST_P(KeeperCode, random_writes_while_nodes_come_and_go) {
  Kept kept(GetParam().over, TestNode::kMemory, code().nodes() + 1, code());
  const auto outpost = kept.outpost();
  CodedPages pages(*outpost);
  std::mt19937 random(3);
  std::uint64_t mended = 0;
  std::size_t away = code().nodes() + 1;
  // One that has something to lose: of the nodes, one may have nothing.
  const auto another = [&] {
    std::size_t node = 0;
    while (node == away || kept.in_use_at(node) == 0) ++node;
    return node;
  };
  ASSERT_TRUE(pages.write(tags(0, 600)));
  for (std::size_t round = 0; round < 4; ++round) {
    std::set<Tag> some;
    for (int i = 0; i < 150; ++i) some.insert(random() % 600);
    for (int i = 0; i < 20; ++i) pages.forget(random() % 600);
    ASSERT_TRUE(pages.write({some.begin(), some.end()}));
    if (round % 2 == 0) {
      mended = kept.keeper().status().mended;
      away = another();
      kept.stop_node(away);
    } else {
      kept.start_node(away);
      ASSERT_TRUE(mended_soon(kept, *outpost, mended));
    }
    EXPECT_TRUE(wait_until([&] { return outpost->tend(), pages.are_right(); })) << round;
  }
}

// What the others had is theirs again at once: only what a late write may land in waits for the lease.
TEST_P(KeeperCode, what_is_given_up_while_a_node_is_away_returns_to_the_others) {
  Kept kept(GetParam().over, TestNode::kMemory, code().nodes(), code());
  const auto outpost = kept.outpost();
  CodedPages pages(*outpost);
  const auto in_use_elsewhere = [&] {
    std::uint64_t elsewhere = 0;
    for (std::size_t node = 0; node < code().nodes(); ++node) elsewhere += node == 3 ? 0 : kept.in_use_at(node);
    return elsewhere;
  };
  ASSERT_TRUE(pages.write(tags(0, 6'000)));
  kept.stop_node(3);
  ASSERT_TRUE(wait_until([&] { return outpost->tend(), pages.made() > 0; }));
  const std::uint64_t before = in_use_elsewhere();
  for (const Tag tag : tags(0, 6'000)) pages.forget(tag);
  // But for some that are at hand.
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), in_use_elsewhere() < before / 2; }));
  if (GetParam().over == Over::tcp) {
    EXPECT_EQ(kept.losses_of(3), 0U) << "its lease is not over: nothing waited for that; " << kept.why_lost(3);
  }
  ASSERT_TRUE(pages.write(tags(0, 500)));
  EXPECT_TRUE(pages.are_right());
}

TEST_P(KeeperCode, a_drained_node_is_left) {
  Kept kept(GetParam().over, TestNode::kMemory, code().nodes() + 1, code());
  const auto outpost = kept.outpost();
  CodedPages pages(*outpost);
  ASSERT_TRUE(pages.write(tags(0, 500)));
  const std::size_t drained = kept.number_of(outpost->place_of(pages.homes().at(0)).node);
  kept.node(drained).limit(LendLimit::operator_word, 0);
  const auto empty = [&] {
    const auto status = kept.node(drained).status();
    return status.lent == 0 && status.present == 0;
  };
  ASSERT_TRUE(wait_until([&] { return outpost->tend(), empty(); }));
  EXPECT_TRUE(pages.are_right_both_ways());
  EXPECT_GT(kept.keeper().status().moved, 0U);
  kept.stop_node(drained);
  EXPECT_TRUE(pages.are_right());
  EXPECT_EQ(pages.made(), 0U) << "it had nothing any more";
}

// Each of them has a row of each chunk: there is nowhere to go, and nothing is lost over it.
TEST_P(KeeperCode, a_drained_node_that_is_needed_keeps_what_it_has) {
  Kept kept(GetParam().over, TestNode::kMemory, code().nodes(), code());
  const auto outpost = kept.outpost();
  CodedPages pages(*outpost);
  ASSERT_TRUE(pages.write(tags(0, 200)));
  kept.node(0).limit(LendLimit::operator_word, 0);
  ASSERT_TRUE(wait_until([&] { return outpost->tend(), kept.keeper().status().stuck; }));
  EXPECT_TRUE(pages.are_right_both_ways());
  kept.node(0).limit(LendLimit::operator_word, UINT64_MAX);
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), !kept.keeper().status().stuck; }));
  EXPECT_TRUE(pages.write(tags(0, 200)));
  EXPECT_TRUE(pages.are_right_both_ways());
}

}  // namespace
}  // namespace comex::test

#include "pool/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace comex {
namespace {

using Candidates = std::vector<Placement::Candidate>;

constexpr NodeId kHost{17};

Candidates all_usable(std::size_t nodes) {
  return Candidates(nodes, Placement::Candidate{true, 1000});
}

TEST(Placement, preferred_isTheSameEveryTime) {
  for (std::uint32_t pid = 1; pid < 100; ++pid) {
    EXPECT_EQ(Placement(kHost, pid, 7, 1).preferred(), Placement(kHost, pid, 7, 2).preferred());
    EXPECT_EQ(Placement(kHost, pid, 7, 1).alternative(), Placement(kHost, pid, 7, 2).alternative());
  }
}

TEST(Placement, preferred_dependsOnTheHost) {
  int differ = 0;
  for (std::uint32_t pid = 1; pid < 1000; ++pid) {
    if (Placement(NodeId{1}, pid, 8, 0).preferred() != Placement(NodeId{2}, pid, 8, 0).preferred()) ++differ;
  }
  EXPECT_GT(differ, 800);
}

TEST(Placement, preferred_isEvenOverPids) {
  constexpr std::size_t kNodes = 12;
  constexpr int kPids = 120'000;
  std::vector<int> first(kNodes), second(kNodes);
  for (std::uint32_t pid = 1; pid <= kPids; ++pid) {
    const Placement placement(kHost, pid, kNodes, 0);
    ++first[placement.preferred()];
    ++second[placement.alternative()];
  }
  for (std::size_t i = 0; i < kNodes; ++i) {
    EXPECT_NEAR(first[i], kPids / kNodes, 500) << i;  // five standard deviations
    EXPECT_NEAR(second[i], kPids / kNodes, 500) << i;
  }
}

// When one node refuses, its processes must not all go to the same neighbour.
TEST(Placement, alternative_spreadsTheProcessesOfOneNode) {
  constexpr std::size_t kNodes = 5;
  std::vector<int> next(kNodes);
  int processes = 0;
  for (std::uint32_t pid = 1; pid <= 50'000; ++pid) {
    const Placement placement(kHost, pid, kNodes, 0);
    if (placement.preferred() != 2) continue;
    ++processes;
    ++next[placement.alternative()];
  }
  EXPECT_EQ(next[2], 0);
  for (const std::size_t i : {0, 1, 3, 4}) EXPECT_NEAR(next[i], processes / 4, processes / 20);
}

TEST(Placement, choose_walksPreferredThenAlternative) {
  Placement placement(kHost, 42, 6, 0);
  auto nodes = all_usable(6);
  EXPECT_EQ(placement.choose(nodes), placement.preferred());
  nodes[placement.preferred()].usable = false;
  EXPECT_EQ(placement.choose(nodes), placement.alternative());
  nodes[placement.alternative()].usable = false;
  const auto third = placement.choose(nodes);
  ASSERT_TRUE(third);
  EXPECT_TRUE(nodes[*third].usable);
}

TEST(Placement, choose_nothingWhenNoneIsUsable) {
  Placement placement(kHost, 42, 3, 0);
  EXPECT_FALSE(placement.choose(Candidates(3)));
}

TEST(Placement, choose_withOneNode) {
  Placement placement(kHost, 42, 1, 0);
  EXPECT_EQ(placement.choose(all_usable(1)), 0U);
  EXPECT_EQ(placement.alternative(), 0U);
  EXPECT_FALSE(placement.choose(Candidates(1)));
}

TEST(Placement, choose_twoChoicesPicksTheFreer) {
  Placement placement(kHost, 42, 4, 5);
  auto nodes = all_usable(4);
  nodes[placement.preferred()].usable = false;
  nodes[placement.alternative()].usable = false;
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < 4; ++i) {
    if (nodes[i].usable) rest.push_back(i);
  }
  ASSERT_EQ(rest.size(), 2U);
  nodes[rest[1]].free_frames = 2000;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(placement.choose(nodes), rest[1]);
}

TEST(Placement, choose_isDeterministicGivenTheSeed) {
  auto nodes = all_usable(10);
  Placement a(kHost, 42, 10, 99), b(kHost, 42, 10, 99);
  nodes[a.preferred()].usable = nodes[a.alternative()].usable = false;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.choose(nodes), b.choose(nodes));
}

// Two choices fill the nodes far more evenly than one draw would: the largest load stays near the mean.
TEST(Placement, choose_twoChoicesBalances) {
  constexpr std::size_t kNodes = 16;
  constexpr std::uint32_t kRounds = 4800;
  Placement placement(kHost, 42, kNodes, 3);
  auto nodes = Candidates(kNodes, Placement::Candidate{true, kRounds});
  nodes[placement.preferred()].usable = nodes[placement.alternative()].usable = false;
  for (std::uint32_t i = 0; i < kRounds; ++i) --nodes[placement.choose(nodes).value()].free_frames;
  std::uint32_t most = 0, least = kRounds;
  for (const auto& node : nodes) {
    if (!node.usable) continue;
    most = std::max(most, kRounds - node.free_frames);
    least = std::min(least, kRounds - node.free_frames);
  }
  EXPECT_LE(most - least, 12U) << "one draw alone would be off by about 70";
}

}  // namespace
}  // namespace comex

#include "run/keeper/profile_merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "run/keeper/score_writer.h"

namespace comex {
namespace {

using Order = std::vector<std::uint64_t>;

Order shuffled(std::uint64_t first, std::uint64_t count, unsigned seed) {
  Order order(count);
  for (std::uint64_t i = 0; i < count; ++i) order[i] = first + i;
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

Order half_of(const Order& order, unsigned seed) {
  Order half;
  std::mt19937 random(seed);
  std::copy_if(order.begin(), order.end(), std::back_inserter(half), [&](auto) { return random() % 2 == 0; });
  return half;
}

Profile of(std::vector<Order> threads) {
  return {.processes = {{.name = "program", .executable = 1, .arguments = 2, .threads = std::move(threads)}}};
}

// How many of the pages come in this order.
std::size_t in_order(const Order& some, const Order& all) {
  std::size_t found = 0;
  auto at = all.begin();
  for (const std::uint64_t page : some) {
    const auto next = std::find(at, all.end(), page);
    if (next == all.end()) continue;
    ++found;
    at = next + 1;
  }
  return found;
}

TEST(ProfileMerge, whatTwoRunsShowIsPutInOneOrder) {
  const Order visits = shuffled(0, 4000, 1);
  const Order one = half_of(visits, 2);
  const Order other = half_of(visits, 3);
  const Profile both = merge(of({one}), of({other}));
  ASSERT_EQ(both.processes.size(), 1U);
  Order merged = both.processes[0].threads[0];
  EXPECT_GT(merged.size(), 2900U);
  EXPECT_LT(merged.size(), 3100U) << "three quarters of the visits, each once";
  // A page that is new has its place between others that are known, give or take one.
  EXPECT_EQ(in_order(one, merged), one.size());
  EXPECT_GT(in_order(merged, visits), merged.size() * 7 / 10);
}

TEST(ProfileMerge, whatGoesOnIsAddedAtTheEnd) {
  const Order first = shuffled(0, 200, 1);
  Order longer = first;
  const Order rest = shuffled(1000, 200, 2);
  longer.insert(longer.end(), rest.begin(), rest.end());
  const Profile both = merge(of({first}), of({longer}));
  EXPECT_EQ(both.processes[0].threads[0], longer);
}

TEST(ProfileMerge, threadsKeepTheirPlaces) {
  const Order one = shuffled(0, 200, 1);
  const Order other = shuffled(1000, 200, 2);
  Order more = other;
  more.insert(more.begin() + 100, 5000);
  const Profile both = merge(of({one, other}), of({more, one}));
  EXPECT_EQ(both.processes[0].threads, (std::vector<Order>{one, more}));
}

TEST(ProfileMerge, processesAreToldApart) {
  const Order order = shuffled(0, 100, 1);
  const Profile before = of({order});
  Profile now = of({order});
  now.processes.push_back({.name = "other", .executable = 9, .arguments = 2, .threads = {{1, 2, 3}}});
  const Profile both = merge(before, now);
  ASSERT_EQ(both.processes.size(), 2U);
  EXPECT_EQ(both.processes[0], before.processes[0]);
  EXPECT_EQ(both.processes[1], now.processes[1]);
}

TEST(ScoreWriter, aScoreSaysWhatTheProfileSays) {
  Profile profile = of({{5, 7, 5}, {}, {9}});
  profile.processes.push_back({.name = "other", .executable = 9, .arguments = 3, .threads = {{1}}});
  alignas(kPageSize) static std::byte memory[1 << 16];
  write_score(profile, memory);
  const auto& score = *reinterpret_cast<const Score*>(memory);
  ASSERT_EQ(score.count, 2U);
  EXPECT_EQ(score.parts[0].executable, 1U);
  EXPECT_EQ(score.parts[1].arguments, 3U);
  const Sequence sequence = sequence_of(score, score.parts[0]);
  const auto at = [&](std::uint32_t place) {
    const PageKey* const key = sequence.at(place);
    return key == nullptr ? 0 : key->value;
  };
  EXPECT_EQ((std::vector{at(0), at(1), at(2), at(3), at(4), at(5), at(6)}),
            (std::vector<std::uint64_t>{5, 7, 5, 0, 0, 9, 0}));
  const auto places = sequence.places_of(PageKey{5});
  EXPECT_EQ(std::vector(places.begin(), places.end()), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_TRUE(sequence.places_of(PageKey{6}).empty());
  EXPECT_EQ(sequence_of(score, score.parts[1]).at(0)->value, 1U);
}

TEST(ScoreWriter, whatHasNoRoomIsLeftOut) {
  Profile profile = of({shuffled(0, 10'000, 1)});
  profile.processes.push_back({.name = "other", .executable = 9, .arguments = 3, .threads = {{1}}});
  alignas(kPageSize) static std::byte memory[1 << 16];
  write_score(profile, memory);
  const auto& score = *reinterpret_cast<const Score*>(memory);
  ASSERT_EQ(score.count, 1U);
  EXPECT_EQ(score.parts[0].executable, 9U);
}

}  // namespace
}  // namespace comex

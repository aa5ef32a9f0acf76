#include "pool/tag_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace comex {
namespace {

TEST(TagIndex, find_whatWasPut) {
  TagIndex index(8);
  EXPECT_FALSE(index.find(0));
  index.put(0, 5);
  index.put(UINT64_MAX, 6);
  EXPECT_EQ(index.find(0), 5U);
  EXPECT_EQ(index.find(UINT64_MAX), 6U);
}

TEST(TagIndex, put_newestWins) {
  TagIndex index(8);
  index.put(7, 1);
  index.put(7, 2);
  EXPECT_EQ(index.find(7), 2U);
  index.erase(7, 1);  // the older batch lands: not its entry any more
  EXPECT_EQ(index.find(7), 2U);
  index.erase(7, 2);
  EXPECT_FALSE(index.find(7));
}

TEST(TagIndex, model_againstAMap) {
  constexpr std::uint32_t kEntries = 256;
  TagIndex index(kEntries);
  std::map<std::uint64_t, std::uint32_t> model;
  std::mt19937_64 random(3);
  for (int step = 0; step < 500'000; ++step) {
    const std::uint64_t tag = random() % 600;  // few tags: many collisions, many repeats
    const auto known = model.find(tag);
    if (random() % 2 == 0 && (known != model.end() || model.size() < kEntries)) {
      const auto slot = static_cast<std::uint32_t>(random() % 10'000);
      index.put(tag, slot);
      model[tag] = slot;
    } else if (known != model.end()) {
      index.erase(tag, known->second);
      model.erase(known);
    }
    const std::uint64_t probe = random() % 600;
    const auto expected = model.find(probe);
    const auto got = index.find(probe);
    ASSERT_EQ(got.has_value(), expected != model.end());
    if (got) {
      ASSERT_EQ(*got, expected->second);
    }
  }
}

}  // namespace
}  // namespace comex

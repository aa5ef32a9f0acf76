#include "wire/holdings.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace comex {
namespace {

TEST(Holdings, add_remove_across_slabs) {
  Holdings held(9);
  held.add({FrameNo{500}, 40});  // two slabs
  EXPECT_EQ(held.frames(), 40U);
  EXPECT_TRUE(held.holds({FrameNo{500}, 40}));
  EXPECT_FALSE(held.holds({FrameNo{499}, 2}));
  EXPECT_FALSE(held.holds({FrameNo{539}, 2}));
  EXPECT_TRUE(held.holds_any_of({FrameNo{0}, 501}));
  EXPECT_TRUE(held.holds_any_of({FrameNo{539}, 2000}));
  EXPECT_FALSE(held.holds_any_of({FrameNo{0}, 500}));
  EXPECT_FALSE(held.holds_any_of({FrameNo{540}, 2000}));
  EXPECT_TRUE(held.holds_any_of_slab(0));
  EXPECT_TRUE(held.holds_any_of_slab(1));
  EXPECT_TRUE(held.remove({FrameNo{500}, 12}));
  EXPECT_FALSE(held.holds_any_of_slab(0));
  EXPECT_FALSE(held.remove({FrameNo{511}, 2})) << "one of the two is not held";
  EXPECT_EQ(held.frames(), 28U) << "and nothing was removed";
}

TEST(Holdings, empty_extent_and_far_frames_are_not_held) {
  Holdings held(9);
  held.add({FrameNo{0}, 1});
  EXPECT_FALSE(held.holds({FrameNo{0}, 0}));
  EXPECT_FALSE(held.holds({FrameNo{0xffffff00}, 0x100}));
  EXPECT_FALSE(held.holds({FrameNo{0}, 0xffffffff}));
}

TEST(Holdings, for_each_gives_maximal_runs_within_slabs) {
  Holdings held(9);
  held.add({FrameNo{510}, 4});
  held.add({FrameNo{520}, 1});
  std::set<std::pair<std::uint32_t, std::uint32_t>> runs;
  held.for_each([&](Extent e) { runs.emplace(e.first.value, e.count); });
  EXPECT_EQ(runs, (std::set<std::pair<std::uint32_t, std::uint32_t>>{{510, 2}, {512, 2}, {520, 1}}));
}

TEST(Holdings, agrees_with_a_set_of_frames) {
  std::mt19937 random(7);
  Holdings held(9);
  std::set<std::uint32_t> model;
  for (int i = 0; i < 20000; ++i) {
    const Extent e{FrameNo{static_cast<std::uint32_t>(random() % 2048)},
                   static_cast<std::uint32_t>(1 + random() % 200)};
    std::uint32_t there = 0;
    for (auto f = e.first.value; f < e.end(); ++f) there += model.contains(f) ? 1 : 0;
    ASSERT_EQ(held.holds(e), there == e.count);
    if (there == 0) {
      held.add(e);
      for (auto f = e.first.value; f < e.end(); ++f) model.insert(f);
    } else {
      ASSERT_EQ(held.remove(e), there == e.count);
      if (there == e.count) {
        for (auto f = e.first.value; f < e.end(); ++f) model.erase(f);
      }
    }
    ASSERT_EQ(held.frames(), model.size());
  }
}

}  // namespace
}  // namespace comex

#include "pager/prefetch/footprints.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

constexpr std::uint32_t kEnough = 10;
constexpr std::uint64_t kPages = Footprints::kPages;

// Touches so many pages of each of so many regions that were never touched before, three apart. Returns how many of
// the regions should come whole.
class Walk {
 public:
  std::uint32_t over(std::uint32_t regions, std::uint32_t pages) {
    std::uint32_t whole = 0;
    for (std::uint32_t i = 0; i < regions; ++i, ++region_) {
      const bool all = touch(0);
      whole += all;
      for (std::uint32_t page = 1; page < pages && !all; ++page) EXPECT_FALSE(touch(page * 3 % kPages));
    }
    return whole;
  }

 private:
  bool touch(std::uint64_t page) { return footprints_.touch(PageNo{region_ * kPages + page}, kEnough); }

  Footprints footprints_;
  std::uint64_t region_ = 1000;
};

TEST(Footprints, touch_regionsThatAreUsedAllOverComeWhole) {
  Walk walk;
  EXPECT_EQ(walk.over(16, kPages), 0U) << "they are not known yet";
  EXPECT_GE(walk.over(100, kPages), 80U) << "but for those that are watched";
}

TEST(Footprints, touch_asManyPagesAsAreEnough) {
  Walk enough;
  enough.over(40, kEnough);
  EXPECT_GE(enough.over(100, kEnough), 80U);
  Walk fewer;
  EXPECT_EQ(fewer.over(1000, kEnough - 1), 0U);
}

TEST(Footprints, touch_noticesThatItIsSoNoMore) {
  Walk walk;
  walk.over(100, kPages);
  walk.over(200, 2);  // a few of which were watched
  EXPECT_EQ(walk.over(200, 2), 0U);
  walk.over(40, kPages);
  EXPECT_GE(walk.over(100, kPages), 80U) << "and that it is again";
}

TEST(Footprints, touch_fewDenseOnesAmongOthersDoNotCount) {
  Walk walk;
  std::uint32_t whole = 0;
  for (int i = 0; i < 200; ++i) whole += walk.over(1, kPages) + walk.over(1, 2);
  EXPECT_EQ(whole, 0U);
}

TEST(Footprints, follow_countsAsTouched) {
  Footprints footprints;
  std::uint32_t whole = 0;
  for (std::uint64_t region = 1; region <= 200; ++region) {
    const PageNo first{region * kPages};
    whole += footprints.touch(first, kEnough);
    footprints.follow({first, 0, Step{3}}, 12);  // and into a region that is not known yet
  }
  EXPECT_GE(whole, 140U);
}

TEST(Footprints, follow_aStrideFromRegionToRegionSaysNothing) {
  Footprints footprints;
  std::uint32_t whole = 0;
  for (std::uint64_t region = 1; region <= 200; ++region) {
    whole += footprints.touch(PageNo{region * kPages}, kEnough);
    footprints.follow({PageNo{region * kPages}, 0, Step{-std::int64_t{kPages}}}, 31);
  }
  EXPECT_EQ(whole, 0U);
}

}  // namespace
}  // namespace comex

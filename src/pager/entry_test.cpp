#include "pager/entry.h"

#include <gtest/gtest.h>

#include "pager/page.h"

namespace comex {
namespace {

TEST(Entry, is_settled_where_the_kernel_may_touch_it) {
  const Entry resident(PageState::resident);
  const Entry clean = Entry::clean(Location{NodeId{1}, FrameNo{2}});
  EXPECT_TRUE(Entry(PageState::none).settled(true));
  EXPECT_TRUE(resident.settled(true));
  EXPECT_TRUE(clean.settled(false));
  EXPECT_FALSE(clean.settled(true));
  EXPECT_TRUE(Entry::fenced().settled(false));
  EXPECT_FALSE(Entry::fenced().settled(true));
  EXPECT_FALSE(Entry(resident.bits() | Entry::kBusy).settled(false));
  for (const PageState away : {PageState::untouched, PageState::staged, PageState::remote})
    EXPECT_FALSE(Entry(away).settled(false));
}

TEST(Entry, is_guarded_if_clean_or_fenced) {
  EXPECT_FALSE(Entry(PageState::resident).guarded());
  EXPECT_TRUE(Entry::fenced().guarded());
  EXPECT_FALSE(Entry::fenced().clean());
  EXPECT_TRUE(Entry::clean(Location{NodeId{1}, FrameNo{2}}).guarded());
  EXPECT_FALSE(Entry::remote(Location{NodeId{1}, FrameNo{1}}).guarded()) << "the bit is one of its frame";
}

TEST(PageRun, has_all_pages_that_the_bytes_are_on) {
  EXPECT_EQ(PageRun::of(4096, 4096), (PageRun{PageNo{1}, 1}));
  EXPECT_EQ(PageRun::of(4095, 2), (PageRun{PageNo{0}, 2}));
  EXPECT_EQ(PageRun::of(8191, 4098), (PageRun{PageNo{1}, 3}));
  EXPECT_EQ(PageRun::of(5000, 0).count, 0U);
  EXPECT_EQ(PageRun::of(UINT64_MAX - 10, 11).count, 1U);
  EXPECT_EQ(PageRun::of(4096, UINT64_MAX).count, 0U) << "beyond the last address";
}

}  // namespace
}  // namespace comex

// Pages that are asked for by a list.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "pager/pager_fixture_test.h"

namespace comex {
namespace {

using testing_support::kFirst;
using testing_support::PagerFixture;

// On a fault on one page, asks for what a test says.
class Lists final : public Prefetcher {
 public:
  Plan plan(History&, const Miss& miss) const noexcept override {
    Plan plan;
    if (miss.page == kFirst) plan.listed = static_cast<std::uint32_t>(pages.size());
    return plan;
  }
  void brought(History&, const Miss&, const Plan&, const Brought& what) const noexcept override {
    if (what.listed) told.push_back(what.pages);
  }
  [[nodiscard]] std::optional<PageNo> listed(std::uint32_t place) const noexcept override {
    return place < pages.size() ? std::optional(kFirst + pages[place]) : std::nullopt;
  }

  std::vector<std::uint64_t> pages;
  mutable std::vector<std::uint32_t> told;
};

class PagerListTest : public PagerFixture {
 protected:
  static constexpr std::uint32_t kPages = 1024;

  // All pages have been written and are remote.
  void begin_remote(std::uint16_t nodes = 1) {
    begin(kPages, kPages, nodes, lists_);
    if (nodes > 1) (void)frames_->take(kPages + 512);  // most of the first
    for (std::uint32_t page = 0; page < kPages; ++page) store(page, 1000 + page);
    send_all();
  }
  void expect_served(const std::vector<std::uint32_t>& pages, Served how) {
    for (const std::uint32_t page : pages) {
      EXPECT_EQ(load(page), 1000 + page);
      EXPECT_EQ(last_, how) << page;
    }
  }

  Lists lists_;
};

TEST_F(PagerListTest, list_isOneReadAndWaitsInTheBuffer) {
  lists_.pages = {500, 7, 501, 900, 8, 300};
  begin_remote();
  EXPECT_EQ(load(0), 1000U);
  EXPECT_EQ(frames_->reads(), 2) << "the page, and the list";
  EXPECT_EQ(budget_.local(), 1U) << "nothing of the list is in the program's memory";
  EXPECT_EQ(lists_.told, std::vector<std::uint32_t>{6});
  expect_served({900, 7, 8, 300, 501, 500}, Served::buffered);
  EXPECT_EQ(frames_->reads(), 2);
  EXPECT_EQ(pager_->stats().pages_around, 6U);
  EXPECT_EQ(pager_->stats().around_used, 6U);
}

// A process that wakes finds most of the budget used by what it has not adopted yet.
TEST_F(PagerListTest, buffer_isMadeForTheWholeBudget) {
  lists_.pages = {1, 2};
  words_.whole = 2 * kPages;
  begin(kPages, 512, 1, lists_);
  for (std::uint32_t page = 0; page < kPages; ++page) store(page, 1000 + page);
  send_all();
  EXPECT_EQ(load(0), 1000U);
  expect_served({1, 2}, Served::buffered);
}

TEST_F(PagerListTest, list_isOneReadForEachNode) {
  sizes_.buffer = 4 * ReadBuffer::kGroupPages;
  lists_.pages = {1, 1000, 2, 1001, 3};
  begin_remote(2);
  ASSERT_NE(pager_->table().load(kFirst + 1).location().node, pager_->table().load(kFirst + 1000).location().node);
  EXPECT_EQ(load(0), 1000U);
  EXPECT_EQ(frames_->reads(), 3);
  EXPECT_EQ(lists_.told, std::vector<std::uint32_t>{5});
  expect_served({1, 2, 3, 1000, 1001}, Served::buffered);
}

TEST_F(PagerListTest, list_leavesOutWhatIsHereHiddenOrNowhere) {
  lists_.pages = {5, 6, 7, kPages + 5, std::uint64_t{1} << 40, 0};
  begin_remote();
  EXPECT_EQ(load(5), 1005U);
  pager_->hide(PageRun{kFirst + 6, 1}, true);
  EXPECT_EQ(load(0), 1000U);
  EXPECT_EQ(lists_.told, std::vector<std::uint32_t>{1});
  pager_->hide(PageRun{kFirst + 6, 1}, false);
  expect_served({6}, Served::remote);
  expect_served({7}, Served::buffered);
}

TEST_F(PagerListTest, list_ofNearPagesIsNotAskedFor) {
  lists_.pages = {5, 6, 7};
  begin_remote();
  frames_->near = true;
  EXPECT_EQ(load(0), 1000U);
  EXPECT_EQ(frames_->reads(), 1);
  expect_served({5, 6, 7}, Served::remote);
}

TEST_F(PagerListTest, list_leavesOutWhatWouldBeWaitedFor) {
  sizes_.buffer = 4 * ReadBuffer::kGroupPages;
  lists_.pages = {5, 6, 7, 1000, 1001};
  begin_remote(2);
  const auto place_of = [&](std::uint32_t page) { return pager_->table().load(kFirst + page).location(); };
  ASSERT_NE(place_of(5).node, place_of(1000).node);
  frames_->disk = place_of(1000).node;
  frames_->elsewhere = {{place_of(5).frame.value, kMade}, {place_of(6).frame.value, kNowhere}};
  EXPECT_EQ(load(0), 1000U);
  EXPECT_EQ(frames_->reads(), 2) << "the page, and one of the list";
  EXPECT_EQ(lists_.told, std::vector<std::uint32_t>{1});
  frames_->elsewhere.clear();
  expect_served({7}, Served::buffered);
  expect_served({5, 6, 1000, 1001}, Served::remote);
}

TEST_F(PagerListTest, list_whileTooMuchIsUnderWayIsForTheNextFault) {
  sizes_.buffer = 32 * (ReadBuffer::kMostUnderWay + 1);
  lists_.pages = {10, 20};
  begin_remote();
  frames_->hold_reads(true);
  for (std::uint32_t i = 0; i <= ReadBuffer::kMostUnderWay; ++i) {
    lists_.pages = {100 + i};
    EXPECT_EQ(load(0), 1000U);
    pager_->clear(PageRun{kFirst, 1});
    store(0, 1000);
    send_all();
  }
  EXPECT_EQ(lists_.told.size(), ReadBuffer::kMostUnderWay) << "of the last one nothing is said";
  frames_->hold_reads(false);
  expect_served({100, 101}, Served::buffered);
}

}  // namespace
}  // namespace comex

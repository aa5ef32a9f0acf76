// What comes along with a page: by plan, and as prefetchers plan it.
#include <gtest/gtest.h>

#include "pager/pager_fixture_test.h"

namespace comex {
namespace {

using testing_support::kFirst;
using testing_support::PagerFixture;

class PagerFetchTest : public PagerFixture {};

// Brings the pages that a test says.
class AsPlanned final : public Prefetcher {
 public:
  Plan plan(History&, const Miss& miss) const noexcept override { return miss.page == at ? planned : Plan{}; }
  void brought(History&, const Miss&, const Plan&, const Brought& what) const noexcept override { result = what; }

  PageNo at{};
  Plan planned;
  mutable Brought result;
};

class PlannedTest : public PagerFixture {
 protected:
  // All pages have been written and are remote, and `page` is to bring others.
  void begin_remote(std::uint32_t page, const Plan& plan, std::uint32_t local = 1024, std::uint16_t nodes = 1) {
    begin(1024, local, nodes, planned_);
    for (std::uint32_t each = 0; each < 1024; ++each) store(each, 1000 + each);
    send_all();
    planned_.at = kFirst + page;
    planned_.planned = plan;
  }
  std::vector<std::uint32_t> resident() {
    std::vector<std::uint32_t> pages;
    for (std::uint32_t page = 0; page < 1024; ++page) {
      if (state(page) == PageState::resident) pages.push_back(page);
    }
    return pages;
  }
  std::uint32_t frame_of(std::uint32_t page) { return pager_->table().load(kFirst + page).location().frame.value; }
  void expect_all_as_written() {
    for (std::uint32_t page = 0; page < 1024; ++page) EXPECT_EQ(load(page), 1000 + page);
  }

  AsPlanned planned_;
};
using Pages = std::vector<std::uint32_t>;

TEST_F(PlannedTest, fault_bringsNoMoreThanItsSizesSay) {
  sizes_.along = 3;
  begin_remote(100, {.step = {10}, .after = 5});
  EXPECT_EQ(load(100), 1100U);
  EXPECT_EQ(resident(), (Pages{100, 110, 120, 130}));
  expect_all_as_written();
}

TEST(PagerStats, addLead_countsByPowersOfTwo) {
  PagerStats stats;
  for (const std::int64_t us : {0, 1, 2, 3, 4}) stats.add_lead(std::chrono::microseconds(us));
  stats.add_lead(std::chrono::hours(1));
  EXPECT_EQ(stats.leads[0], 1U);
  EXPECT_EQ(stats.leads[1], 1U);
  EXPECT_EQ(stats.leads[2], 2U);
  EXPECT_EQ(stats.leads[3], 1U);
  EXPECT_EQ(stats.leads.back(), 1U);
}

TEST_F(PlannedTest, fault_strideIsOneReadAndMapped) {
  begin_remote(100, {.step = {10}, .after = 5});
  EXPECT_EQ(load(100), 1100U);
  EXPECT_EQ(frames_->reads(), 1);
  EXPECT_EQ(resident(), (Pages{100, 110, 120, 130, 140, 150}));
  EXPECT_EQ(planned_.result.pages, 5U);
  EXPECT_EQ(planned_.result.covered, 5U);
  EXPECT_EQ(budget_.local(), 6U);
  for (const std::uint32_t page : {110U, 150U}) EXPECT_EQ(load(page), 1000 + page);
  EXPECT_EQ(faults(Served::remote), 1U) << "no fault on what came along";
  expect_all_as_written();
}

TEST_F(PlannedTest, fault_strideBackwardsAndForwards) {
  begin_remote(100, {.step = {-7}, .after = 3, .before = 2});
  store(100, 5);
  EXPECT_EQ(resident(), (Pages{79, 86, 93, 100, 107, 114}));
  EXPECT_EQ(load(100), 5U);
  EXPECT_TRUE(pager_->table().load(kFirst + 93).clean());
  EXPECT_FALSE(pager_->table().load(kFirst + 100).clean());
  store(100, 1100);
  expect_all_as_written();
}

TEST_F(PlannedTest, fault_noMoreThanFitsAndNothingElsewhere) {
  begin_remote(10, {.step = {-1}, .after = 1000, .before = 1000});
  EXPECT_EQ(load(10), 1010U);
  EXPECT_EQ(resident().size(), 11U) << "there is nothing before the first page";
  planned_.at = kFirst + 1020;
  planned_.planned = {.step = {1'000'000'000'000}, .after = 31};
  EXPECT_EQ(load(1020), 2020U);
  EXPECT_EQ(resident().size(), 12U);
}

TEST_F(PlannedTest, fault_leavesOutWhatIsInAnotherState) {
  begin_remote(100, {.step = {10}, .after = 6});
  EXPECT_EQ(load(120), 1120U);                   // here already
  pager_->clear(PageRun{kFirst + 130, 1});       // zeros
  pager_->hide(PageRun{kFirst + 140, 1}, true);  // not to be touched
  EXPECT_EQ(load(100), 1100U);
  EXPECT_EQ(resident(), (Pages{100, 110, 120, 150, 160}));
  EXPECT_EQ(planned_.result.pages, 3U);
  EXPECT_EQ(planned_.result.covered, 2U) << "the next fault is at 130";
  pager_->hide(PageRun{kFirst + 140, 1}, false);
  EXPECT_EQ(load(130), 0U);
  EXPECT_EQ(load(140), 1140U);
}

TEST_F(PlannedTest, fault_leavesOutWhatIsAtAnotherNode) {
  begin_remote(0, {.step = {33}, .after = 31}, 1024, 2);
  const auto node_of = [&](std::uint32_t page) { return pager_->table().load(kFirst + page).location().node; };
  Pages same;
  for (std::uint32_t page = 0; page < 1024; page += 33) {
    if (node_of(page) == node_of(0)) same.push_back(page);
  }
  EXPECT_EQ(load(0), 1000U);
  EXPECT_EQ(resident(), same);
  EXPECT_EQ(frames_->reads(), 1);
}

TEST_F(PlannedTest, fault_bringsAlongFromSeveralNodesWhereNeighboursAreSpread) {
  begin(1024, 1024, 2, planned_);
  (void)frames_->take(frames_->at_hand() / 2 - 512);  // most of the first
  for (std::uint32_t page = 0; page < 1024; ++page) store(page, 1000 + page);
  send_all();
  frames_->spread = true;
  planned_.at = kFirst;
  planned_.planned = {.step = {33}, .after = 31};
  Pages all;
  for (std::uint32_t page = 0; page < 1024; page += 33) all.push_back(page);
  EXPECT_EQ(load(0), 1000U);
  EXPECT_EQ(resident(), all);
  EXPECT_EQ(frames_->reads(), 2) << "one for each node";
  // So does what is to wait.
  planned_.at = kFirst + 1;
  planned_.planned = {.step = {40}, .after = 25, .mapped = false};
  EXPECT_EQ(load(1), 1001U);
  EXPECT_EQ(frames_->reads(), 5) << "the page itself, and the others from both";
  expect_all_as_written();
}

TEST_F(PlannedTest, fault_strideIntoTheBuffer) {
  begin_remote(100, {.step = {10}, .after = 3, .before = 2, .mapped = false});
  EXPECT_EQ(load(100), 1100U);
  EXPECT_EQ(resident(), Pages{100});
  for (const std::uint32_t page : {110U, 80U}) {
    EXPECT_EQ(load(page), 1000 + page);
    EXPECT_EQ(last_, Served::buffered) << page;
  }
  EXPECT_EQ(frames_->reads(), 2) << "the page itself, which is waited for, and the others";
  // What is there is mapped with another, without being read again.
  planned_.at = kFirst + 115;
  planned_.planned = {.step = {5}, .after = 3};
  EXPECT_EQ(load(115), 1115U);
  EXPECT_EQ(planned_.result.from_buffer, 2U);
  EXPECT_EQ(resident(), (Pages{80, 100, 110, 115, 120, 125, 130}));
  expect_all_as_written();
}

TEST_F(PlannedTest, fault_readsAheadWithoutWaiting) {
  begin_remote(100, {.step = {10}, .after = 2, .ahead = 3});
  frames_->hold_reads(true);
  EXPECT_EQ(load(100), 1100U);
  EXPECT_EQ(resident(), (Pages{100, 110, 120}));
  EXPECT_EQ(frames_->under_way(), 1U) << "130, 140 and 150";
  EXPECT_EQ(pager_->stats().pages_around, 3U);
  // The next fault of the stream maps what has been asked for, and reads nothing itself.
  planned_.at = kFirst + 130;
  planned_.planned = {.step = {10}, .after = 2};
  const int before = frames_->reads();
  EXPECT_EQ(load(130), 1130U);
  EXPECT_EQ(last_, Served::buffered);
  EXPECT_EQ(frames_->reads(), before);
  EXPECT_EQ(resident(), (Pages{100, 110, 120, 130, 140, 150}));
  EXPECT_EQ(planned_.result.from_buffer, 2U);
  EXPECT_EQ(pager_->stats().pages_along + pager_->stats().pages_around, 5U) << "each counts once";
  expect_all_as_written();
}

TEST_F(PlannedTest, fault_whatWouldBeWaitedForIsNotReadAhead) {
  begin_remote(100, {.step = {10}, .after = 2, .ahead = 3});
  frames_->disk = pager_->table().load(kFirst + 100).location().node;
  EXPECT_EQ(load(100), 1100U);
  EXPECT_EQ(resident(), (Pages{100, 110, 120})) << "what comes in the read of the page itself";
  EXPECT_EQ(frames_->reads(), 1);
  planned_.at = kFirst + 200;
  planned_.planned = {.after = 3, .mapped = false};
  EXPECT_EQ(load(200), 1200U);
  EXPECT_EQ(frames_->reads(), 2);
  EXPECT_EQ(pager_->stats().pages_around, 0U);
  // Where neighbours are spread, those that are elsewhere are read.
  frames_->disk = kNowhere;
  frames_->spread = true;
  frames_->elsewhere = {{frame_of(302), kMade}, {frame_of(303), kNowhere}};
  planned_.at = kFirst + 300;
  planned_.planned = {.after = 4, .mapped = false};
  EXPECT_EQ(load(300), 1300U);
  EXPECT_EQ(pager_->stats().pages_around, 2U) << "301 and 304";
  frames_->elsewhere.clear();
  expect_all_as_written();
}

// What is on its way is of a frame that must not change hands meanwhile, and not be seen afterwards.
TEST_F(PlannedTest, fault_whatIsOnItsWayIsClearedWrittenAndMoved) {
  begin_remote(100, {.after = 7, .mapped = false});
  frames_->hold_reads(true);
  EXPECT_EQ(load(100), 1100U);
  EXPECT_EQ(frames_->under_way(), 1U);
  pager_->clear(PageRun{kFirst + 101, 1});
  EXPECT_EQ(frames_->under_way(), 0U) << "FakeFrames would complain of a frame that is read after it was given back";
  EXPECT_EQ(load(101), 0U);
  store(102, 7);
  send_all();
  EXPECT_EQ(load(102), 7U) << "not what was read before";
  pager_->clear(PageRun{kFirst + 101, 1});
  pager_->hold(PageRun{kFirst + 103, 1});
  ASSERT_EQ(pager_->relocate(PageRun{kFirst + 103, 1}, kFirst + 101, PageState::untouched), Errc::ok);
  EXPECT_EQ(load(103), 0U);
  pager_->forget(PageRun{kFirst, 1024});
  EXPECT_EQ(frames_->used(), 0U);
}

TEST_F(PlannedTest, fault_zerosByAStride) {
  begin(1024, 1024, 1, planned_);
  planned_.at = kFirst + 100;
  planned_.planned = {.step = {3}, .after = 4};
  store(100, 1);
  EXPECT_EQ(resident(), (Pages{100, 103, 106, 109, 112}));
  EXPECT_EQ(faults(Served::zeros), 1U);
  planned_.at = kFirst + 500;
  planned_.planned = {.step = {3}, .after = 4, .mapped = false};
  store(500, 1);
  EXPECT_EQ(resident().size(), 6U) << "zeros are not kept in the buffer";
  EXPECT_EQ(budget_.local(), 6U);
}

TEST_F(PlannedTest, fault_withoutRoomNothingIsMappedAhead) {
  for (const bool near : {false, true}) {
    begin_remote(100, {.step = {10}, .after = 5});
    frames_->near = near;
    words_.set(1, 0);
    EXPECT_EQ(load(100), 1100U);
    EXPECT_EQ(resident(), Pages{100});
    EXPECT_EQ(budget_.local(), 1U);
    words_.set(1024, 256);
    EXPECT_EQ(load(110), 1110U);
    EXPECT_EQ(last_, near ? Served::remote : Served::buffered) << "a far read is not in vain";
    pager_->forget(PageRun{kFirst, 1024});
  }
}

TEST_F(PlannedTest, fault_runsThatLieInSeveralMappings) {
  begin_remote(100, {.after = 31});
  memory_->border = kFirst + 117;
  EXPECT_EQ(load(100), 1100U);
  EXPECT_EQ(resident().size(), 32U);
  EXPECT_EQ(planned_.result.covered, 31U);
  EXPECT_EQ(budget_.local(), 32U);
  expect_all_as_written();
}

TEST_F(PlannedTest, fault_placesThatAreRefusedStayRemote) {
  begin_remote(100, {.step = {10}, .after = 3});
  memory_->refuse = kFirst + 120;
  EXPECT_EQ(load(100), 1100U);
  EXPECT_EQ(resident(), (Pages{100, 110, 130}));
  EXPECT_EQ(planned_.result.pages, 2U);
  EXPECT_EQ(planned_.result.covered, 1U);
  EXPECT_EQ(budget_.local(), 3U);
  memory_->refuse = PageNo{};
  expect_all_as_written();
}

TEST_F(PagerFetchTest, fault_whatAScanWritesToIsPlacedAsWritten) {
  begin(4096, 4096, 1, prefetcher_of(Prefetch::automatic));
  for (std::uint32_t page = 0; page < 4096; ++page) store(page, page);
  for (const bool reads_first : {false, true}) {
    send_all();
    const auto before = faults(Served::written);
    for (std::uint32_t page = 0; page < 4096; ++page) {
      if (reads_first) (void)load(page);
      store(page, page + 1);
    }
    EXPECT_LT(faults(Served::written) - before, 4096U / 8) << "now and then it looks whether that is still so";
  }
  // Pages that are only read stay clean, and need not be sent again.
  send_all();
  const auto before = pager_->stats().evicted - pager_->stats().dropped;
  for (std::uint32_t page = 0; page < 4096; ++page) EXPECT_EQ(load(page), page + 1);
  send_all();
  EXPECT_LT(pager_->stats().evicted - pager_->stats().dropped - before, 4096U / 8);
  for (std::uint32_t page = 0; page < 4096; ++page) EXPECT_EQ(load(page), page + 1);
}

TEST_F(PagerFetchTest, fault_whatWasReadAndThenWrittenIsPlacedAsWritten) {
  begin(1024, 1024);
  for (std::uint32_t page = 0; page < 1024; ++page) store(page, page);
  // In no order that anything could be learned from; one half is written to, too.
  const auto visit_all = [&](bool writes) {
    send_all();
    for (std::uint32_t i = 0; i < 1024; ++i) {
      const std::uint32_t page = i * 389 % 1024;
      const std::uint64_t value = load(page);
      if (writes && page % 2 == 0) store(page, value + 1);
    }
  };
  const auto written_anew = [&] { return pager_->stats().evicted - pager_->stats().dropped; };
  visit_all(true);
  auto before = faults(Served::written);
  EXPECT_GE(before, 448U);  // but for those of which chance has it that they are placed as written
  visit_all(true);
  EXPECT_LT(faults(Served::written) - before, 512U / 8) << "now and then it looks whether that is still so";
  // Once they are only read, more and more of them are known to be.
  for (int i = 0; i < 64; ++i) visit_all(false);
  send_all();
  before = written_anew();
  visit_all(false);
  send_all();
  EXPECT_LT(written_anew() - before, 512U / 4);
  for (std::uint32_t page = 0; page < 1024; ++page) EXPECT_EQ(load(page), page + (page % 2 == 0 ? 2 : 0));
}

TEST_F(PagerFetchTest, fault_ofPagesInARowThatAreWrittenToMostCostNoFault) {
  constexpr std::uint32_t kPages = 8 * 1024;
  begin(kPages, kPages, 1, prefetcher_of(Prefetch::none));
  for (std::uint32_t page = 0; page < kPages; ++page) store(page, page);
  send_all();
  // Eight neighbours at a time, all over memory: first all are read, then all are written.
  const auto visit = [&](std::uint32_t from, std::uint32_t to) {
    const auto before = faults(Served::written);
    for (std::uint32_t i = from; i < to; ++i) {
      const std::uint32_t first = i * 389 % (kPages / 8) * 8;
      for (std::uint32_t page = first; page < first + 8; ++page) EXPECT_EQ(load(page), page);
      for (std::uint32_t page = first; page < first + 8; ++page) store(page, page + 1);
    }
    return faults(Served::written) - before;
  };
  visit(0, 512);
  EXPECT_LT(visit(512, 1024), 512U * 8 * 5 / 8);
  send_all();
  for (std::uint32_t page = 0; page < kPages; ++page) EXPECT_EQ(load(page), page + 1);
}

TEST_F(PagerFetchTest, fault_ofARowThatIsRefusedHalfWayNothingIsLost) {
  constexpr std::uint32_t kPages = 2048;
  begin(kPages, kPages, 1, prefetcher_of(Prefetch::none));
  for (std::uint32_t page = 0; page < kPages; ++page) store(page, page);
  send_all();
  for (const bool refused : {false, true}) {
    memory_->refuse_rows_half_way = refused;
    for (std::uint32_t i = 0; i < kPages / 16; ++i) {
      const std::uint32_t first = (i * 389 % (kPages / 16) * 2 + refused) * 8;
      for (std::uint32_t page = first; page < first + 8; ++page) (void)load(page);
      for (std::uint32_t page = first; page < first + 8; ++page) store(page, page + 1);
    }
  }
  send_all();
  for (std::uint32_t page = 0; page < kPages; ++page) EXPECT_EQ(load(page), page + 1);
}

TEST_F(PagerFetchTest, fault_whereMostPagesAreWrittenToOthersArePlacedAsWritten) {
  constexpr std::uint32_t kPages = 16 * 1024;
  begin(kPages, kPages);
  for (std::uint32_t page = 0; page < kPages; ++page) store(page, page);
  send_all();
  // Each page once, in no order that anything could be learned from. Returns how many were not taken for written.
  const auto visit = [&](std::uint32_t from, std::uint32_t to, bool writes) {
    const auto before = faults(Served::written);
    for (std::uint32_t i = from; i < to; ++i) {
      const std::uint32_t page = i * 6'151 % kPages;
      const std::uint64_t value = load(page);
      EXPECT_EQ(value, page);
      if (writes) store(page, value + 1);
    }
    return faults(Served::written) - before;
  };
  const auto kept_frames = [&] {
    std::uint32_t clean = 0;
    for (std::uint32_t page = 0; page < kPages; ++page) clean += pager_->table().load(kFirst + page).clean();
    return clean;
  };
  visit(0, kPages / 4, true);
  // It goes by what it measures: on a busy machine it may think otherwise for a while.
  EXPECT_LT(visit(kPages / 4, kPages / 2, true), kPages / 8);
  EXPECT_LT(kept_frames(), kPages / 8);
  // Once they are only read, that is soon known.
  visit(kPages / 2, kPages * 3 / 4, false);
  const std::uint32_t clean = kept_frames();
  visit(kPages * 3 / 4, kPages, false);
  EXPECT_GT(kept_frames() - clean, kPages / 8);
}

TEST_F(PagerFetchTest, fault_leapFollowsStridesOfSeveralStreams) {
  begin(4096, 4096, 1, prefetcher_of(Prefetch::leap));
  for (std::uint32_t page = 0; page < 4096; ++page) store(page, page);
  send_all();
  const auto before = faults(Served::remote);
  for (std::uint32_t i = 0; i < 100; ++i) {
    for (const std::uint32_t page : {i * 10, 2000 + i, 3000 + i * 3}) EXPECT_EQ(load(page), page);
  }
  EXPECT_LT(faults(Served::remote) - before, 40U);
  EXPECT_LT(pager_->stats().pages_in, 400U);
  EXPECT_GT(pager_->stats().along_used, 150U);
}

TEST_F(PagerFetchTest, fault_aSharedHistoryIsTheOneUsed) {
  begin(1024, 1024);
  for (std::uint32_t page = 0; page < 1024; ++page) store(page, page);
  send_all();
  std::vector<std::byte> bounce((1 + Faulter::kMostAlong) * kPageSize);
  SharedHistory shared;
  Faulter handlers[2];
  for (Faulter& handler : handlers) {
    handler.bounce = bounce.data();
    handler.shared = &shared;
  }
  std::uint32_t turn = 0;
  for (std::uint32_t page = 0; page < 1024; ++page) {
    if (state(page) != PageState::resident) pager_->fault(kFirst + page, false, handlers[turn++ % 2]);
  }
  EXPECT_LT(turn, 50U) << "whichever of them is free serves the next fault of a scan";
}

}  // namespace
}  // namespace comex

#include "pager/pager.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "pager/pager_fixture_test.h"
#include "pager/prefetch/next.h"
#include "pager/seal/checksum.h"
#include "pager/seal/cipher.h"

namespace comex {
namespace {

using testing_support::kFirst;
using testing_support::PagerFixture;

// Brings neighbours in with every page.
class AllAround final : public Prefetcher {
 public:
  Plan plan(History& history, const Miss& miss) const noexcept override {
    Plan plan = runs.plan(history, miss);
    if (plan.after == 0 && miss.from == Miss::From::node) {
      plan.before = static_cast<std::uint32_t>(miss.page.value % 16);
      plan.after = 15 - plan.before;
      plan.mapped = false;
    }
    return plan;
  }
  void brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept override {
    runs.brought(history, miss, plan, brought);
  }

 private:
  NextPages runs;
};

const AllAround all_around;

const auto kEachPolicy = ::testing::Values(Evict::fifo, Evict::clock, Evict::two_queues);

std::string name_of(Evict evict) {
  return std::string(kEvictNames[static_cast<std::size_t>(evict)]);
}

// Whatever the policy, a page is where its entry says.
class PagerTest : public PagerFixture, public ::testing::WithParamInterface<Evict> {
 protected:
  PagerTest() { evict_ = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Evict, PagerTest, kEachPolicy, [](const auto& each) { return name_of(each.param); });

TEST_P(PagerTest, fault_elsewhereIsNotOurs) {
  begin(64, 64);
  Faulter faulter;
  EXPECT_EQ(pager_->fault(kFirst + 64, false, faulter), Served::not_ours);
  EXPECT_EQ(pager_->fault(PageNo{1}, false, faulter), Served::not_ours);
  EXPECT_EQ(pager_->fault(PageNo{UINT64_MAX >> kPageShift}, false, faulter), Served::not_ours);
}

TEST_P(PagerTest, fault_firstTouchBringsZeros) {
  begin(64, 64);
  EXPECT_EQ(load(7), 0U);
  EXPECT_EQ(last_, Served::zeros);
  EXPECT_EQ(state(7), PageState::resident);
  EXPECT_EQ(budget_.local(), 1U);
  EXPECT_FALSE(memory_->there(kFirst + 8)) << "nothing that nobody asked for";
}

TEST_P(PagerTest, fault_firstTouchesInOrderComeInLargePieces) {
  begin(1024, 1024);
  for (std::uint32_t page = 0; page < 1024; ++page) store(page, page);
  EXPECT_EQ(budget_.local(), 1024U);
  EXPECT_LT(faults(Served::zeros), 50U);
}

TEST_P(PagerTest, evict_pagesComeBackAsTheyWere) {
  begin(256, 256);
  for (std::uint32_t page = 0; page < 256; ++page) store(page, 1000 + page);
  send_all();
  EXPECT_EQ(budget_.local(), 0U);
  EXPECT_EQ(memory_->count_there(), 0U);
  EXPECT_EQ(frames_->used(), 256U);
  for (std::uint32_t page = 0; page < 256; ++page) EXPECT_EQ(state(page), PageState::remote);
  for (std::uint32_t page = 0; page < 256; ++page) EXPECT_EQ(load(page), 1000 + page);
}

TEST_P(PagerTest, evict_aBlockIsOneGuardAndOneDiscard) {
  begin(64, 64);
  for (std::uint32_t page = 0; page < 64; page += 2) store(page, page);
  EXPECT_EQ(pager_->evict(1), 32U);
  EXPECT_EQ(memory_->guards(), 1U) << "holes do not cut it in pieces";
  EXPECT_EQ(memory_->discards(), 1U);
  for (std::uint32_t page = 0; page < 64; ++page) EXPECT_EQ(load(page), page % 2 == 0 ? page : 0);
}

TEST_P(PagerTest, evict_aFewPagesOfEachOfSeveralBlocksAreOneDiscard) {
  begin(256, 256, 1, prefetcher_of(Prefetch::none));
  for (std::uint32_t page = 0; page < 256; ++page) store(page, page);
  send_all();
  for (std::uint32_t page = 0; page < 256; page += 32) EXPECT_EQ(load(page), page);
  const auto discards = memory_->discards();
  EXPECT_EQ(pager_->evict(8), 8U);
  EXPECT_EQ(memory_->discards(), discards + 1);
  EXPECT_EQ(memory_->count_there(), 0U);
  for (std::uint32_t page = 0; page < 256; ++page) EXPECT_FALSE(pager_->table().load(kFirst + page).busy());
}

TEST_P(PagerTest, evict_nothingIsLockedWhileItWaitsForRoom) {
  constexpr std::uint32_t kBlocks = 17;
  constexpr std::uint64_t kStaged = 8 * kBlockPages;
  begin(kBlocks * kBlockPages, kBlocks * kBlockPages, 1, prefetcher_of(Prefetch::none));
  // Not a multiple of what is discarded at a time: something is left over when staging is full.
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    for (std::uint32_t page = 0; page < (block == 0 ? 33 : 32); ++page) store(block * kBlockPages + page, 1);
  }
  frames_->hold_writes(true);
  std::uint64_t evicted = 0;
  frames_->while_waiting = [&] {
    if (evicted == 0) evicted = pager_->stats().evicted;
  };
  pager_->evict(2 * kStaged);
  EXPECT_EQ(evicted, kStaged);
}

TEST_P(PagerTest, fault_stagedPageIsServedFromThere) {
  begin(64, 64);
  store(5, 55);
  EXPECT_EQ(pager_->evict(1), 1U);
  EXPECT_EQ(state(5), PageState::staged) << "the batch is not full, so it is not sent";
  EXPECT_EQ(load(5), 55U);
  EXPECT_EQ(last_, Served::staged);
  EXPECT_EQ(frames_->reads(), 0);
  store(5, 56);
  send_all();
  EXPECT_EQ(load(5), 56U);
  EXPECT_EQ(frames_->used(), 1U) << "the frame of the first time was given back";
}

TEST_P(PagerTest, fault_whileTheWriteIsUnderWay) {
  begin(64, 64);
  for (std::uint32_t page = 0; page < 64; ++page) store(page, page);
  frames_->hold_writes(true);
  EXPECT_EQ(pager_->evict(64), 64U);
  EXPECT_EQ(state(9), PageState::staged);
  store(9, 99);
  EXPECT_EQ(last_, Served::staged);
  frames_->hold_writes(false);
  pager_->progress();
  EXPECT_EQ(state(8), PageState::remote);
  EXPECT_EQ(state(9), PageState::resident) << "what landed late does not touch it";
  send_all();
  EXPECT_EQ(load(9), 99U);
  EXPECT_EQ(frames_->used(), 64U);
}

TEST_P(PagerTest, evict_cleanPagesAreDropped) {
  begin(64, 64);
  for (std::uint32_t page = 0; page < 64; ++page) store(page, page);
  send_all();
  for (std::uint32_t page = 0; page < 64; ++page) EXPECT_EQ(load(page), page);
  const auto guards = memory_->guards();
  EXPECT_EQ(pager_->evict(64), 64U);
  EXPECT_EQ(memory_->guards(), guards) << "they are guarded already";
  EXPECT_EQ(pager_->stats().dropped, 64U);
  EXPECT_EQ(state(3), PageState::remote) << "at once: nothing was sent";
  EXPECT_EQ(load(3), 3U);
}

TEST_P(PagerTest, fault_writeMakesACleanPageDirty) {
  begin(64, 64);
  for (std::uint32_t page = 0; page < 64; ++page) store(page, page);
  send_all();
  EXPECT_EQ(load(3), 3U);
  EXPECT_EQ(frames_->used(), 64U);
  store(3, 33);
  EXPECT_EQ(last_, Served::written);
  EXPECT_EQ(frames_->used(), 63U);
  store(4, 44);
  EXPECT_EQ(last_, Served::remote) << "a write fault needs no second one";
  send_all();
  EXPECT_EQ(load(3), 33U);
  EXPECT_EQ(load(4), 44U);
}

TEST_P(PagerTest, fault_twoWritesToACleanPageGiveItsFrameBackOnce) {
  begin(64, 64);
  store(0, 1);
  for (int round = 0; round < 2000; ++round) {
    send_all();
    (void)load(0);  // clean
    std::thread other([&] { store(0, 2, 8); });
    store(0, 3, 16);
    other.join();
  }
  send_all();
  EXPECT_EQ(frames_->used(), 1U);  // and FakeFrames has complained if one came back twice
}

TEST_P(PagerTest, fault_scanReadsLargePieces) {
  begin(1024, 1024);
  for (std::uint32_t page = 0; page < 1024; ++page) store(page, page);
  send_all();
  for (std::uint32_t page = 0; page < 1024; ++page) EXPECT_EQ(load(page), page);
  EXPECT_LT(frames_->reads(), 50);
  EXPECT_EQ(pager_->stats().pages_in, 1024U);
}

TEST_P(PagerTest, fault_randomAccessBringsInNothingElse) {
  begin(1024, 1024);
  for (std::uint32_t page = 0; page < 1024; ++page) store(page, page);
  send_all();
  for (std::uint32_t i = 0; i < 500; ++i) EXPECT_EQ(load(i * 389 % 1024), i * 389 % 1024);
  EXPECT_EQ(pager_->stats().pages_in, 500U);
}

TEST_P(PagerTest, fault_neighboursComeInOneReadOfTheirOwn) {
  begin(1024, 1024, 1, all_around);
  for (std::uint32_t page = 0; page < 64; ++page) store(page, 100 + page);
  send_all();
  EXPECT_EQ(load(37), 137U);
  EXPECT_EQ(frames_->reads(), 2);
  for (const std::uint32_t page : {35U, 47U, 32U}) {
    EXPECT_EQ(load(page), 100 + page);
    EXPECT_EQ(last_, Served::buffered) << page;
  }
  EXPECT_EQ(frames_->reads(), 2);
  EXPECT_EQ(load(48), 148U);  // of the next group
  EXPECT_EQ(last_, Served::remote);
  EXPECT_EQ(budget_.local(), 5U) << "what is in the buffer is not mapped";
}

TEST_P(PagerTest, fault_copiesInTheBufferDoNotOutliveTheirPage) {
  begin(1024, 1024, 1, all_around);
  for (std::uint32_t page = 0; page < 64; ++page) store(page, 100 + page);
  send_all();
  EXPECT_EQ(load(37), 137U);
  // Each of these leaves the remote state in another way, and comes back to it with other bytes.
  pager_->clear(PageRun{kFirst + 38, 1});
  store(38, 1);
  store(39, 2);
  send_all();
  EXPECT_EQ(load(38), 1U);
  EXPECT_EQ(load(39), 2U);
}

TEST_P(PagerTest, fault_overTheBudgetEvictsFirst) {
  begin(4096, 512);
  for (std::uint32_t page = 0; page < 4096; ++page) store(page, page);
  EXPECT_LE(budget_.local(), 512U);
  EXPECT_LE(memory_->count_there(), 512U);
  EXPECT_GT(pager_->stats().evictions_by_faults, 0U);
  for (std::uint32_t page = 0; page < 4096; ++page) EXPECT_EQ(load(page), page);
}

TEST_P(PagerTest, fault_whoFindsThePageInOtherHandsIsCounted) {
  begin(64, 64);
  pager_->lock(PageRun{kFirst + 5, 1});
  std::thread other([&] { store(5, 77); });
  const Deadline patience(std::chrono::seconds(30));
  while (pager_->stats().waits == 0 && !patience.passed()) std::this_thread::yield();
  pager_->let_go(PageRun{kFirst + 5, 1});
  other.join();
  EXPECT_EQ(pager_->stats().waits, 1U);
  EXPECT_EQ(load(5), 77U);
}

TEST_P(PagerTest, evict_endsThoughTheFirstInVainIsNotSeenAgain) {
  begin(128, 128);
  store(64, 1);
  store(0, 2);
  pager_->clear(PageRun{kFirst + 64, 64});  // its block is still in the queue, in front of the other
  pins_.first_block = 1;
  EXPECT_EQ(pager_->evict(64), 0U);
  pins_.first_block = 0;
  EXPECT_EQ(pager_->evict(64), 1U);
}

TEST_P(PagerTest, evict_leavesPinnedPages) {
  begin(64, 64);
  for (std::uint32_t page = 0; page < 64; ++page) store(page, page);
  pins_.first_block = 0b110;
  EXPECT_EQ(pager_->evict(64), 62U);
  EXPECT_TRUE(memory_->there(kFirst + 1));
  EXPECT_TRUE(memory_->store(kFirst + 2, 0, 222)) << "not even guarded";
  EXPECT_EQ(pager_->evict(64), 0U) << "and does not go round for ever";
  pins_.first_block = 0;
  EXPECT_EQ(pager_->evict(64), 2U) << "they were not forgotten";
  EXPECT_EQ(load(2), 222U);
}

TEST_P(PagerTest, evict_withoutRoomThePagesStay) {
  begin(4096, 4096);
  std::vector<comex::Run> everything;
  for (std::uint32_t page = 0; page < 4096; ++page) store(page, page);
  while (const auto run = frames_->take(1024)) everything.push_back(*run);
  const std::uint64_t evicted = pager_->evict(4096);
  EXPECT_LE(evicted, 8U * 64);
  EXPECT_EQ(memory_->count_there(), 4096 - evicted);
  for (std::uint32_t page = 0; page < 4096; ++page) store(page, page + 1);
  for (const auto& run : everything) frames_->give_back(run);
  send_all();
  for (std::uint32_t page = 0; page < 4096; ++page) EXPECT_EQ(load(page), page + 1);
}

// The pool has been emptied by others.
class FullPagerTest : public PagerTest {
 protected:
  void fill() {
    while (auto run = frames_->take(1024)) others_.push_back(*run);
  }
  void make_room() {
    for (const comex::Run& run : std::exchange(others_, {})) frames_->give_back(run);
  }
  std::vector<comex::Run> others_;
};
INSTANTIATE_TEST_SUITE_P(Evict, FullPagerTest, kEachPolicy, [](const auto& each) { return name_of(each.param); });

TEST_P(FullPagerTest, evict_onlyPagesThatNeedNotBeSentLeave) {
  begin(2048, 2048);
  for (std::uint32_t page = 0; page < 64; ++page) store(page, page);
  send_all();
  for (std::uint32_t page = 0; page < 64; ++page) EXPECT_EQ(load(page), page);
  for (std::uint32_t page = 64; page < 2048; ++page) store(page, page);
  fill();
  while (pager_->evict(64) > 0) {
  }
  EXPECT_TRUE(pager_->full());
  EXPECT_EQ(state(7), PageState::remote) << "its frame had the same bytes";
  EXPECT_EQ(state(2000), PageState::resident);
  const std::uint64_t local = budget_.local();
  store(7, 7);
  EXPECT_EQ(budget_.local(), local + 1) << "there is room for what the program needs";
  for (std::uint32_t page = 64; page < 2048; ++page) EXPECT_EQ(load(page), page);
  make_room();
  pager_->progress();
  pager_->progress();
  EXPECT_FALSE(pager_->full());
  send_all();
  EXPECT_EQ(budget_.local(), 0U);
  for (std::uint32_t page = 0; page < 2048; ++page) EXPECT_EQ(load(page), page);
}

TEST_P(FullPagerTest, fault_beyondTheBudgetDoesNotWait) {
  begin(2048, 640);
  fill();
  for (std::uint32_t page = 0; page < 2048; ++page) store(page, page);
  EXPECT_TRUE(pager_->full());
  const auto start = Clock::now();
  for (std::uint32_t page = 0; page < 2048; ++page) store(page, page + 1);
  EXPECT_LT(Clock::now() - start, Millis(5'000)) << "not a wait for each";
  EXPECT_GT(budget_.local(), 640U);
  for (std::uint32_t page = 0; page < 2048; ++page) EXPECT_EQ(load(page), page + 1);
}

TEST_P(FullPagerTest, emptyStaging_whatNobodyTakesComesBack) {
  begin(2048, 2048);
  for (std::uint32_t page = 0; page < 2048; ++page) store(page, page);
  fill();
  while (pager_->evict(64) > 0) {
  }
  EXPECT_GT(pager_->staging().stats().staged, 0U);
  EXPECT_EQ(pager_->empty_staging(Deadline(std::chrono::seconds(10))), Errc::ok);
  EXPECT_EQ(pager_->staging().stats().staged, 0U);
  EXPECT_EQ(budget_.local(), 2048U);
  for (std::uint32_t page = 0; page < 2048; ++page) EXPECT_EQ(load(page), page);
}

TEST_P(FullPagerTest, hold_whatNobodyTakesComesBack) {
  begin(2048, 2048);
  for (std::uint32_t page = 0; page < 1024; ++page) store(page, page);
  fill();
  while (pager_->evict(64) > 0) {
  }
  const PageRun from{kFirst, 1024};
  const PageRun to{kFirst + 1024, 1024};
  pager_->forget(to);
  pager_->hold(from);
  memory_->move(from, to.first);
  ASSERT_EQ(pager_->relocate(from, to.first, PageState::none), Errc::ok);
  for (std::uint32_t page = 0; page < 1024; ++page) EXPECT_EQ(load(1024 + page), page);
}

TEST_P(PagerTest, pagesAt_whatANodeHasTheOnlyCopyOf) {
  begin(256, 256);
  for (std::uint32_t page = 0; page < 256; ++page) store(page, page);
  send_all();
  EXPECT_EQ(pager_->pages_at(NodeId{0}), 256U);
  EXPECT_EQ(pager_->pages_at(NodeId{1}), 0U);
  (void)load(3);
  EXPECT_EQ(pager_->pages_at(NodeId{0}), 255U);
}

TEST_P(PagerTest, stats_ofAFaulterAreItsOwn) {
  begin(64, 64);
  std::vector<std::byte> bounce((1 + Faulter::kMostAlong) * kPageSize);
  PagerStats mine;
  Faulter faulter{bounce.data(), {}, &mine, 0};
  EXPECT_EQ(pager_->fault(kFirst, true, faulter), Served::zeros);
  EXPECT_EQ(mine.faults[static_cast<std::size_t>(Served::zeros)], 1U);
  EXPECT_GT(mine.fault_ns, 0U);
  EXPECT_EQ(faults(Served::zeros), 0U);
  EXPECT_EQ(words_.peak, 1U);
}

TEST_P(PagerTest, evict_writeDuringItIsNotLost) {
  begin(64, 64);
  for (std::uint32_t page = 0; page < 64; ++page) store(page, page);
  bool wrote = true;
  memory_->while_guarded = [&] { wrote = memory_->store(kFirst + 10, 0, 1010); };
  EXPECT_EQ(pager_->evict(64), 64U);
  EXPECT_FALSE(wrote) << "between guard and discard no write gets through";
  memory_->while_guarded = nullptr;
  store(10, 1010);
  send_all();
  EXPECT_EQ(load(10), 1010U);
}

TEST_P(PagerTest, clear_zerosAndFramesBack) {
  begin(192, 192);
  for (std::uint32_t page = 0; page < 192; ++page) store(page, 1 + page);
  send_all();
  EXPECT_EQ(load(10), 11U);         // clean
  store(20, 21);                    // dirty
  EXPECT_EQ(pager_->evict(1), 2U);  // one of them staged, the other dropped
  EXPECT_EQ(load(11), 12U);         // clean again
  pager_->clear(PageRun{kFirst + 1, 130});
  EXPECT_EQ(load(0), 1U);
  EXPECT_EQ(load(131), 132U);
  for (std::uint32_t page = 1; page < 131; ++page) EXPECT_EQ(load(page), 0U) << page;
  EXPECT_EQ(pager_->staging().drain(Deadline(std::chrono::seconds(10))), Errc::ok);
  EXPECT_EQ(frames_->used(), 62U);
}

TEST_P(PagerTest, forget_everythingComesBack) {
  begin(192, 192);
  for (std::uint32_t page = 0; page < 192; ++page) store(page, 1 + page);
  pager_->evict(100);
  pager_->forget(PageRun{kFirst, 192});
  Faulter faulter;
  EXPECT_EQ(pager_->fault(kFirst + 3, false, faulter), Served::not_ours);
  EXPECT_EQ(budget_.local(), 0U);
  EXPECT_EQ(pager_->staging().drain(Deadline(std::chrono::seconds(10))), Errc::ok);
  EXPECT_EQ(frames_->used(), 0U);
  EXPECT_EQ(pager_->evict(10), 0U) << "what is left in the queue is nothing";
}

TEST_P(PagerTest, hide_eviction_letsThemBe) {
  begin(64, 64);
  for (std::uint32_t page = 0; page < 64; ++page) store(page, page);
  pager_->hide(PageRun{kFirst + 8, 4}, true);
  EXPECT_EQ(pager_->evict(64), 60U);
  EXPECT_EQ(pager_->evict(64), 0U);
  EXPECT_TRUE(memory_->there(kFirst + 9));
  pager_->hide(PageRun{kFirst + 8, 4}, false);
  EXPECT_EQ(pager_->evict(64), 4U);
  EXPECT_EQ(load(9), 9U);
}

TEST_P(PagerTest, hide_whoCanPeekTakesThemToo) {
  begin(64, 64);
  memory_->peeks = true;
  for (std::uint32_t page = 0; page < 64; ++page) store(page, page);
  pager_->hide(PageRun{kFirst + 8, 4}, true);
  EXPECT_EQ(pager_->evict(64), 64U);
  EXPECT_EQ(memory_->count_there(), 0U);
  pager_->hide(PageRun{kFirst + 8, 4}, false);
  for (std::uint32_t page = 0; page < 64; ++page) EXPECT_EQ(load(page), page);
}

TEST_P(PagerTest, hide_whatCannotBeReadAfterAllStays) {
  begin(64, 64);
  memory_->peeks = true;
  memory_->refuse_to_peek = [](PageNo page) { return page == kFirst + 9; };
  for (std::uint32_t page = 0; page < 64; ++page) store(page, page);
  pager_->hide(PageRun{kFirst + 8, 4}, true);
  EXPECT_EQ(pager_->evict(64), 63U);
  EXPECT_EQ(pager_->evict(64), 0U);
  EXPECT_EQ(budget_.local(), 1U);
  EXPECT_EQ(pager_->staging().drain(Deadline(std::chrono::seconds(10))), Errc::ok);
  EXPECT_EQ(frames_->used(), 63U) << "the frame that was meant for it is free";
  pager_->hide(PageRun{kFirst + 8, 4}, false);
  store(9, 109);
  EXPECT_EQ(load(9), 109U);
  EXPECT_EQ(load(10), 10U);
}

TEST_P(PagerTest, evict_endsWhereABlockIsEmptyAndAnotherCannotGo) {
  begin(128, 128);
  store(1, 1);
  store(65, 65);
  pager_->hide(PageRun{kFirst + 65, 1}, true);
  pager_->clear(PageRun{kFirst, 64});  // still queued, with nothing in it
  EXPECT_EQ(pager_->evict(64), 0U);
}

TEST_P(PagerTest, relocate_takesEveryStateAlong) {
  begin(256, 256);
  pager_->forget(PageRun{kFirst + 128, 128});
  for (std::uint32_t page = 0; page < 64; ++page) store(page, 100 + page);
  send_all();                       // remote: 0 to 63
  EXPECT_EQ(load(1), 101U);         // clean: 1
  store(2, 202);                    // dirty: 2
  EXPECT_GE(pager_->evict(2), 2U);  // staged: 2; 1 is remote again
  store(70, 170);                   // dirty, of its first touch
  store(100, 200);
  EXPECT_EQ(state(2), PageState::staged);
  EXPECT_EQ(load(1), 101U);
  const auto used = frames_->used();

  const PageRun from{kFirst, 128};
  pager_->hold(from);
  EXPECT_EQ(state(2), PageState::remote) << "what was staged has landed";
  memory_->move(from, kFirst + 128);
  ASSERT_EQ(pager_->relocate(from, kFirst + 128, PageState::none), Errc::ok);
  for (std::uint32_t page = 0; page < 128; ++page) EXPECT_EQ(state(page), PageState::none);
  const auto expected = [](std::uint32_t page) -> std::uint64_t {
    if (page == 2) return 202;
    return page < 64 || page == 70 || page == 100 ? 100 + page : 0;
  };
  for (std::uint32_t page = 0; page < 128; ++page) EXPECT_EQ(load(128 + page), expected(page)) << page;
  send_all();
  for (std::uint32_t page = 0; page < 128; ++page) EXPECT_EQ(load(128 + page), expected(page)) << page;
  EXPECT_GE(used, 64U);
  pager_->forget(PageRun{kFirst + 128, 128});
  EXPECT_EQ(pager_->staging().drain(Deadline(std::chrono::seconds(10))), Errc::ok);
  EXPECT_EQ(frames_->used(), 0U);
}

TEST_P(PagerTest, letGoUnguarded_whatWasCleanIsDirty) {
  begin(64, 64);
  store(1, 101);
  send_all();
  EXPECT_EQ(load(1), 101U);  // clean
  const auto used = frames_->used();
  pager_->hold(PageRun{kFirst, 64});
  pager_->let_go_unguarded(PageRun{kFirst, 64});
  EXPECT_LT(frames_->used(), used);
  EXPECT_EQ(load(1), 101U);
  send_all();
  EXPECT_EQ(load(1), 101U);
}

TEST_P(PagerTest, relocate_canLeaveZerosBehind) {
  begin(128, 128);
  pager_->forget(PageRun{kFirst + 64, 64});
  store(1, 101);
  const PageRun from{kFirst, 64};
  pager_->hold(from);
  memory_->move(from, kFirst + 64);
  ASSERT_EQ(pager_->relocate(from, kFirst + 64, PageState::untouched), Errc::ok);
  EXPECT_EQ(load(1), 0U);
  EXPECT_EQ(load(65), 101U);
}

TEST_P(PagerTest, relocate_whatIsHiddenStaysHidden) {
  begin(128, 128);
  pager_->forget(PageRun{kFirst + 64, 64});
  store(1, 101);
  pager_->hide(PageRun{kFirst + 1, 1}, true);
  const PageRun from{kFirst, 64};
  pager_->hold(from);
  memory_->move(from, kFirst + 64);
  ASSERT_EQ(pager_->relocate(from, kFirst + 64, PageState::none), Errc::ok);
  EXPECT_EQ(pager_->evict(64), 0U);
  EXPECT_EQ(pager_->adopt(from), Errc::ok);
  store(1, 102);
  EXPECT_EQ(pager_->evict(64), 1U) << "who comes after is not hidden";
}

TEST_P(PagerTest, forget_whoComesAfterIsNotHidden) {
  begin(64, 64);
  store(1, 101);
  pager_->hide(PageRun{kFirst + 1, 1}, true);
  pager_->forget(PageRun{kFirst, 64});
  const PageRun all{kFirst, 64};
  EXPECT_EQ(memory_->discard(std::span(&all, 1)), Errc::ok);
  EXPECT_EQ(pager_->adopt(PageRun{kFirst, 64}), Errc::ok);
  store(1, 102);
  EXPECT_EQ(pager_->evict(64), 1U);
}

TEST_P(PagerTest, guardClean_whatCannotBeGuardedIsDirty) {
  begin(64, 64);
  for (std::uint32_t page = 0; page < 4; ++page) store(page, page);
  send_all();
  for (std::uint32_t page = 0; page < 4; ++page) EXPECT_EQ(load(page), page);
  ASSERT_TRUE(pager_->table().load(kFirst + 2).clean());
  ASSERT_EQ(memory_->unguard(PageRun{kFirst, 4}), Errc::ok);  // as userfaultfd is opened anew
  memory_->refuse_to_guard = true;
  pager_->guard_clean(PageRun{kFirst, 64});
  memory_->refuse_to_guard = false;
  EXPECT_TRUE(memory_->store(kFirst + 2, 0, 102)) << "no fault tells of this";
  send_all();
  EXPECT_EQ(frames_->used(), 4U);
  EXPECT_EQ(load(2), 102U);
  EXPECT_EQ(load(3), 3U);
}

TEST_P(PagerTest, letGo_leavesEverythingAsItWas) {
  begin(64, 64);
  for (std::uint32_t page = 0; page < 32; ++page) store(page, page);
  pager_->hold(PageRun{kFirst, 64});
  EXPECT_EQ(pager_->evict(64), 0U) << "nobody else gets at them";
  pager_->let_go(PageRun{kFirst, 64});
  EXPECT_GE(pager_->evict(64), 32U);
  EXPECT_EQ(load(31), 31U);
}

TEST_P(PagerTest, found_pagesThatWereThereCount) {
  begin(128, 128);
  // Written before the pager came.
  const std::vector<std::byte> old(64 * kPageSize, std::byte{7});
  ASSERT_EQ(memory_->place(PageRun{kFirst + 32, 64}, old.data(), false), Errc::ok);
  pager_->found(PageRun{kFirst + 32, 64});
  EXPECT_EQ(budget_.local(), 64U);
  send_all();
  EXPECT_EQ(load(50), 0x0707070707070707U);
  EXPECT_EQ(load(10), 0U);
}

TEST_P(PagerTest, fault_theOnlyCopyIsGone) {
  begin(64, 64);
  store(5, 55);
  send_all();
  frames_->fail_reads(Errc::disconnected);
  EXPECT_EQ(resolve(5, false), Served::lost);
  EXPECT_EQ(state(5), PageState::remote);
  EXPECT_FALSE(memory_->there(kFirst + 5)) << "no other bytes in its place";
  EXPECT_EQ(budget_.local(), 0U);
}

TEST_P(PagerTest, fault_memoryThatIsGone) {
  begin(64, 64);
  memory_->refuse_to_place = true;
  Faulter faulter;
  std::vector<std::byte> bounce((1 + Faulter::kMostAlong) * kPageSize);
  faulter.bounce = bounce.data();
  EXPECT_EQ(pager_->fault(kFirst + 5, true, faulter), Served::failed);
  EXPECT_EQ(budget_.local(), 0U);
  memory_->refuse_to_place = false;
  EXPECT_EQ(load(5), 0U);
}

// A call that the kernel makes for the program asks for a page that the program could touch without a fault.
TEST_P(PagerTest, touch_whatIsThereAlreadyStays) {
  begin(64, 64);
  memory_->known = kFirst + 5;
  ASSERT_EQ(memory_->place_zeros(PageRun{kFirst + 5, 1}), Errc::ok);
  ASSERT_TRUE(memory_->store(kFirst + 5, 0, 77));
  EXPECT_EQ(resolve(5, true), Served::zeros);
  EXPECT_EQ(state(5), PageState::resident);
  EXPECT_EQ(state(4), PageState::untouched);
  EXPECT_EQ(resolve(4, true), Served::zeros) << "with those that come along";
  send_all();
  EXPECT_EQ(load(5), 77U);
}

// Threads write and check words of their own in pages they share, with a budget of an eighth, while one evicts and one
// clears pages of its own.
struct Brings {
  const char* name;
  const Prefetcher* prefetcher;
  Evict evict = Evict::fifo;
  const Sealer* sealer = &kNoSeal;
};
const Checksum checksum;
CipherKey key;
const Cipher cipher(key);
class PagerModelTest : public PagerFixture, public ::testing::WithParamInterface<Brings> {};
INSTANTIATE_TEST_SUITE_P(
    Brings, PagerModelTest,
    ::testing::Values(Brings{"next", &prefetcher_of(Prefetch::next)}, Brings{"allAround", &all_around},
                      Brings{"stride", &prefetcher_of(Prefetch::stride)},
                      Brings{"readahead", &prefetcher_of(Prefetch::readahead)},
                      Brings{"leap", &prefetcher_of(Prefetch::leap)},
                      Brings{"auto", &prefetcher_of(Prefetch::automatic)},
                      Brings{"next", &prefetcher_of(Prefetch::next), Evict::clock},
                      Brings{"next", &prefetcher_of(Prefetch::next), Evict::two_queues},
                      Brings{"leap", &prefetcher_of(Prefetch::leap), Evict::two_queues},
                      Brings{"sealed", &prefetcher_of(Prefetch::automatic), Evict::fifo, &checksum},
                      Brings{"veiled", &prefetcher_of(Prefetch::leap), Evict::fifo, &cipher}),
    [](const auto& each) { return each.param.name + ("_" + name_of(each.param.evict)); });

TEST_P(PagerModelTest, everyWordAlwaysReadsAsLastWritten) {
  constexpr std::uint32_t kPages = 1024;
  constexpr unsigned kThreads = 3;
  constexpr int kSteps = 30'000;
  evict_ = GetParam().evict;
  sealer_ = GetParam().sealer;
  begin(kPages, kPages / 8, 2, *GetParam().prefetcher);
  std::atomic<bool> stop{false};
  std::thread evictor([&] {
    std::mt19937 random(99);
    while (!stop) {
      if (const auto excess = budget_.excess(true); excess > 0) pager_->evict(excess);
      pager_->progress();
      if (random() % 8 == 0) pager_->staging().flush();
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random(id);
      std::vector<std::uint64_t> model(kPages, 0);
      const std::uint64_t word = id * 7;
      std::uint32_t page = 0;
      std::uint32_t step = 1;
      for (int i = 0; i < kSteps; ++i) {
        if (random() % 32 == 0) step = static_cast<std::uint32_t>(1 + random() % 12);
        page = random() % 4 == 0 ? random() % kPages : (page + step) % kPages;  // runs, and jumps between them
        if (random() % 3 == 0) {
          model[page] = random();
          store(page, model[page], word);
        } else {
          ASSERT_EQ(load(page, word), model[page]) << "page " << page << " of thread " << id;
        }
      }
      for (page = 0; page < kPages; ++page) ASSERT_EQ(load(page, word), model[page]);
    });
  }
  for (auto& thread : threads) thread.join();
  stop = true;
  evictor.join();
  EXPECT_LE(budget_.local(), kPages / 8 + kThreads * (1 + Faulter::kMostAlong));
  EXPECT_EQ(budget_.local(), memory_->count_there());
  pager_->forget(PageRun{kFirst, kPages});
  EXPECT_EQ(pager_->staging().drain(Deadline(std::chrono::seconds(10))), Errc::ok);
  EXPECT_EQ(frames_->used(), 0U) << "no frame is left behind";
}

}  // namespace
}  // namespace comex

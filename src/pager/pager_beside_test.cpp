// Pages that stay among those that leave: guarded along with them, where that saves shootdowns.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "base/mutex.h"
#include "pager/pager_fixture_test.h"

namespace comex {
namespace {

using testing_support::kFirst;
using testing_support::PagerFixture;

// Two queues: pages whose bit is set in `kept` are in the second, which nothing leaves from as long as the first has
// any.
class TwoParts final : public Victims {
 public:
  explicit TwoParts(Slots kept) : kept_(kept) {}

  Mark arrive(PageNo page, std::optional<Mark>) noexcept override {
    return Mark::of(static_cast<std::uint32_t>(kept_ >> (page.value % kBlockPages) & 1));
  }
  [[nodiscard]] unsigned queue_of(Mark mark) const noexcept override { return mark.value & 1; }
  void admit(BlockNo block, unsigned queue) noexcept override {
    const std::lock_guard lock(mutex_);
    queues_[queue].push_back(block);
  }
  std::optional<Victim> next(bool) noexcept override {
    const std::lock_guard lock(mutex_);
    for (const unsigned queue : {0U, 1U}) {
      if (queues_[queue].empty()) continue;
      const BlockNo block = queues_[queue].front();
      queues_[queue].pop_front();
      return Victim{block, queue};
    }
    return std::nullopt;
  }
  Mark leave(unsigned queue, std::uint64_t) noexcept override { return Mark::of(queue); }

 private:
  const Slots kept_;
  Mutex mutex_;
  std::array<std::deque<BlockNo>, kMostQueues> queues_;
};

class PagerBesideTest : public PagerFixture {
 protected:
  void begin_with(Slots kept) {
    own_victims_ = std::make_unique<TwoParts>(kept);
    begin(64, 64, 1, prefetcher_of(Prefetch::none));
    for (std::uint32_t page = 0; page < 64; ++page) store(page, page);
  }
  Entry entry(std::uint32_t page) { return pager_->table().load(kFirst + page); }
};

constexpr Slots kEveryEighth = 0x0101010101010101;

TEST_F(PagerBesideTest, evict_pagesThatStayDoNotCutTheGuardInPieces) {
  begin_with(kEveryEighth << 3);
  EXPECT_EQ(pager_->evict(1), 56U);
  EXPECT_EQ(memory_->guards(), 1U);
  EXPECT_EQ(memory_->count_there(), 8U);
  for (std::uint32_t page = 0; page < 64; ++page) {
    EXPECT_EQ(state(page) == PageState::resident, page % 8 == 3) << page;
    EXPECT_FALSE(entry(page).busy()) << page;
  }
}

TEST_F(PagerBesideTest, evict_manyInARowDo) {
  begin_with(0x1f00);
  EXPECT_EQ(pager_->evict(1), 59U);
  EXPECT_EQ(memory_->guards(), 2U);
  for (std::uint32_t page = 8; page < 13; ++page) EXPECT_FALSE(entry(page).guarded()) << page;
  store(9, 99);
  EXPECT_EQ(faults(Served::written), 0U);
}

TEST_F(PagerBesideTest, evict_whatIsCleanMayBeMany) {
  begin_with(0x1f00);
  send_all();
  for (std::uint32_t page = 0; page < 64; ++page) EXPECT_EQ(load(page), page);
  for (std::uint32_t page = 0; page < 64; ++page) {
    if (page < 8 || page >= 13) store(page, page + 1);
  }
  const auto guards = memory_->guards();
  EXPECT_EQ(pager_->evict(1), 59U);
  EXPECT_EQ(memory_->guards(), guards + 1);
  for (std::uint32_t page = 8; page < 13; ++page) EXPECT_TRUE(entry(page).clean()) << page;
}

TEST_F(PagerBesideTest, fault_aWriteToWhatWasGuardedAlong) {
  begin_with(kEveryEighth << 3);
  pager_->evict(1);
  EXPECT_TRUE(entry(3).guarded());
  EXPECT_FALSE(entry(3).settled(true)) << "the kernel may not write there";
  const auto frames = frames_->used();
  store(3, 33);
  EXPECT_EQ(last_, Served::written);
  EXPECT_TRUE(entry(3).settled(true));
  EXPECT_EQ(frames_->used(), frames) << "it has no frame to give back";
  store(3, 34);
  EXPECT_EQ(faults(Served::written), 1U);
  send_all();
  for (std::uint32_t page = 0; page < 64; ++page) EXPECT_EQ(load(page), page == 3 ? 34 : page);
}

TEST_F(PagerBesideTest, evict_whatWasGuardedAlongIsSentAllTheSame) {
  begin_with(kEveryEighth << 3);
  pager_->evict(1);
  send_all();
  EXPECT_EQ(memory_->count_there(), 0U);
  EXPECT_EQ(frames_->used(), 64U);
  for (std::uint32_t page = 0; page < 64; ++page) EXPECT_EQ(load(page), page);
}

TEST_F(PagerBesideTest, evict_whereTheyAreWrittenToSoonFewAreGuardedAlong) {
  begin_with(kEveryEighth << 3);
  const auto round = [&] {
    pager_->evict(1);
    for (std::uint32_t page = 0; page < 64; ++page) store(page, page);
  };
  for (int i = 0; i < 100; ++i) round();
  const auto before = faults(Served::written);
  for (int i = 0; i < 16; ++i) round();
  EXPECT_LE(faults(Served::written) - before, 8U) << "of one block, to see whether that is still so";
}

TEST_F(PagerBesideTest, liftFences_nothingButCleanPagesIsGuardedAfterwards) {
  begin_with(kEveryEighth << 3);
  send_all();
  for (std::uint32_t page = 0; page < 64; ++page) EXPECT_EQ(load(page), page);
  for (std::uint32_t page = 0; page < 64; ++page) {
    if (page != 11) store(page, page + 1);
  }
  pager_->evict(1);
  EXPECT_TRUE(entry(3).guarded());
  pager_->lift_fences();
  EXPECT_FALSE(entry(3).guarded());
  EXPECT_TRUE(memory_->store(kFirst + 3, 0, 33)) << "as the kernel would";
  EXPECT_TRUE(entry(11).clean());
  EXPECT_FALSE(memory_->store(kFirst + 11, 0, 111));
  for (std::uint32_t page = 0; page < 64; ++page) EXPECT_FALSE(entry(page).busy()) << page;
}

// It names no frame, though its entry has a bit where others have theirs.
TEST_F(PagerBesideTest, relocate_whatWasGuardedAlong) {
  begin_with(kEveryEighth << 3);
  pager_->evict(1);
  send_all();
  for (std::uint32_t page = 0; page < 64; ++page) store(page, page);
  pager_->evict(1);
  ASSERT_TRUE(entry(3).guarded());
  const auto frames = frames_->used();
  pager_->hold(PageRun{kFirst + 3, 1});
  pager_->let_go_unguarded(PageRun{kFirst + 3, 1});
  EXPECT_EQ(frames_->used(), frames);
  pager_->clear(PageRun{kFirst + 3, 1});
  EXPECT_EQ(frames_->used(), frames);
  EXPECT_EQ(load(3), 0U);
  pager_->forget(PageRun{kFirst + 11, 1});
  EXPECT_EQ(frames_->used(), frames);
}

TEST_F(PagerBesideTest, evict_aGuardThatFailsLeavesNothingLocked) {
  begin_with(kEveryEighth << 3);
  memory_->refuse_to_guard = true;
  EXPECT_EQ(pager_->evict(1), 0U);
  memory_->refuse_to_guard = false;
  for (std::uint32_t page = 0; page < 64; ++page) {
    EXPECT_FALSE(entry(page).busy()) << page;
    store(page, page + 1);
  }
  send_all();
  for (std::uint32_t page = 0; page < 64; ++page) EXPECT_EQ(load(page), page + 1);
}

TEST_F(PagerBesideTest, evict_pinnedPagesAreNotGuarded) {
  begin_with(kEveryEighth << 3);
  pins_.first_block = Slots{1} << 11;
  pager_->evict(1);
  EXPECT_FALSE(entry(11).guarded());
  EXPECT_TRUE(memory_->store(kFirst + 11, 0, 111)) << "as the kernel would";
  EXPECT_TRUE(entry(3).guarded());
  EXPECT_EQ(memory_->guards(), 2U);
}

}  // namespace
}  // namespace comex

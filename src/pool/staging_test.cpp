#include "pool/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "pool/fake_link_test.h"
#include "pool/kept_member_test.h"
#include "pool/pool.h"

namespace comex {
namespace {

using testing_support::eventually;
using testing_support::FakeCluster;
using testing_support::page_of;
using testing_support::quick_config;

Deadline patience() {
  return Deadline(std::chrono::minutes(1));
}

class StagingTest : public ::testing::Test {
 protected:
  void open(std::size_t nodes, std::uint32_t frames = 8192) {
    cluster_ = std::make_unique<FakeCluster>(nodes, frames, Millis(60'000));
    PoolConfig config;
    config.nodes = cluster_->urls();
    config.member = quick_config();
    config.pid = 42;
    auto pool = Pool::open(std::move(config), cluster_->connector());
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = *std::move(pool);
  }
  // The preferred node's list is full, and the stand-by has frames too.
  void fill() {
    ASSERT_TRUE(eventually([&] {
      const auto status = pool_->status();
      const auto all = std::accumulate(status.begin(), status.end(), 0U, [](auto n, auto& s) { return n + s.at_hand; });
      const auto first = status[preferred(status.size())].at_hand;
      return first == 2048 && (status.size() == 1 || all - first >= 128);
    }));
  }
  void stage(StagingConfig config = {}) {
    auto staging = Staging::create(*pool_, config, [this](std::uint64_t tag, Location where) {
      const std::lock_guard lock(mutex_);
      landed_.emplace(tag, where);
    });
    ASSERT_TRUE(staging);
    staging_ = *std::move(staging);
  }
  std::multimap<std::uint64_t, Location> landed() {
    const std::lock_guard lock(mutex_);
    return landed_;
  }
  bool put(std::uint64_t tag, std::uint8_t value) { return staging_->put(tag, page_of(value).data()); }
  std::vector<std::byte> staged(std::uint64_t tag) {
    auto page = page_of(0);
    return staging_->copy_out(tag, page.data()) ? page : std::vector<std::byte>{};
  }
  // What the nodes have for a page that landed.
  std::vector<std::byte> remote(std::uint64_t tag) {
    auto page = page_of(0);
    const Location where = landed().find(tag)->second;
    EXPECT_EQ(pool_->read(where.node, std::array{Segment{where.frame, 1, page.data()}}), Errc::ok);
    return page;
  }
  int writes() {
    int n = 0;
    for (std::size_t i = 0; i < cluster_->size(); ++i) n += (*cluster_)[i].writes();
    return n;
  }
  static std::size_t preferred(std::size_t nodes) { return Placement(NodeId{0}, 42, nodes, 0).preferred(); }
  std::uint64_t in_use() {
    std::uint64_t frames = 0;
    for (const auto& member : pool_->status()) frames += member.in_use;
    return frames;
  }

  std::unique_ptr<FakeCluster> cluster_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Staging> staging_;

 private:
  std::mutex mutex_;
  std::multimap<std::uint64_t, Location> landed_;
};

TEST_F(StagingTest, fullBatch_leavesAsOneWriteToOneRun) {
  open(1);
  fill();
  stage();
  for (std::uint8_t i = 0; i < 64; ++i) ASSERT_TRUE(put(i, i));
  EXPECT_EQ(landed().size(), 64U);
  EXPECT_EQ(writes(), 1);
  const auto where = landed();
  for (std::uint64_t i = 1; i < 64; ++i) {
    EXPECT_EQ(where.find(i)->second.frame, where.find(0)->second.frame + static_cast<std::uint32_t>(i));
  }
  for (std::uint8_t i = 0; i < 64; ++i) EXPECT_EQ(remote(i), page_of(i));
  EXPECT_TRUE(staged(5).empty());
  EXPECT_EQ(in_use(), 64U);
}

TEST_F(StagingTest, flush_sendsWhatThereIsAndKeepsTheRest) {
  open(1);
  fill();
  stage();
  for (std::uint8_t i = 0; i < 10; ++i) ASSERT_TRUE(put(i, i));
  EXPECT_EQ(staged(3), page_of(3));
  EXPECT_EQ(staging_->stats().staged, 10U);
  staging_->flush();
  EXPECT_EQ(landed().size(), 10U);
  EXPECT_EQ(in_use(), 10U) << "frames taken for the batch and not used are at hand again";
  EXPECT_EQ(pool_->at_hand(), 2048U - 10);
  staging_->flush();  // nothing there
  EXPECT_EQ(writes(), 1);
}

TEST_F(StagingTest, putAway_afterDrainNothingIsHeld) {
  open(1);
  fill();
  stage();
  ASSERT_TRUE(put(1, 1));
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  const auto slot = staging_->reserve(std::array<Tag, 1>{2});  // opens a batch, which has frames
  ASSERT_TRUE(slot);
  staging_->commit(*slot, 1);
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  staging_->put_away();
  EXPECT_TRUE(eventually([&] { return in_use() == 1; })) << "that of the page which landed";
  ASSERT_TRUE(put(3, 3));
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  EXPECT_EQ(remote(3), page_of(3));
}

TEST_F(StagingTest, reserve_severalSlotsToBeFilledInPlace) {
  open(1);
  fill();
  stage();
  std::vector<std::uint64_t> tags(100);
  std::iota(tags.begin(), tags.end(), 1000);
  const auto first = staging_->reserve(tags);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->count, 64U) << "no more than the batch has";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first->memory) % kPageSize, 0U);
  for (std::uint8_t i = 0; i < 64; ++i) std::memset(first->memory + i * kPageSize, i, kPageSize);
  EXPECT_TRUE(staged(1000).empty()) << "not before it is committed";
  EXPECT_EQ(writes(), 0);
  staging_->commit(*first, 0b110);  // the second and third were not filled after all
  EXPECT_EQ(landed().size(), 62U);
  EXPECT_EQ(remote(1003), page_of(3));
  EXPECT_FALSE(landed().contains(1001));
  EXPECT_TRUE(eventually([&] { return in_use() == 62; }));
}

TEST_F(StagingTest, closing_waitsForTheLastCommit) {
  open(1);
  fill();
  stage();
  const std::uint64_t tag = 7;
  const auto slot = staging_->reserve({&tag, 1});
  ASSERT_TRUE(put(8, 8));
  staging_->flush();
  EXPECT_EQ(writes(), 0);
  ASSERT_TRUE(put(9, 9));  // goes to another batch meanwhile
  std::memset(slot->memory, 7, kPageSize);
  staging_->commit(*slot);
  EXPECT_EQ(landed().size(), 2U);
  EXPECT_EQ(remote(7), page_of(7));
}

TEST_F(StagingTest, find_untilTheWriteIsAcknowledged) {
  open(1);
  fill();
  stage();
  (*cluster_)[0].hold_transfers(true);
  for (std::uint8_t i = 0; i < 64; ++i) ASSERT_TRUE(put(i, i));
  staging_->progress();
  EXPECT_EQ(staged(9), page_of(9)) << "under way, and still here";
  EXPECT_EQ(staging_->stats().batches_writing, 1U);
  EXPECT_TRUE(landed().empty());
  (*cluster_)[0].hold_transfers(false);
  staging_->progress();
  EXPECT_TRUE(staged(9).empty());
  EXPECT_EQ(remote(9), page_of(9));
}

TEST_F(StagingTest, find_pinKeepsTheBatchFromBeingReused) {
  open(1);
  fill();
  stage({.batches = 1});
  (*cluster_)[0].hold_transfers(true);
  for (std::uint8_t i = 0; i < 64; ++i) ASSERT_TRUE(put(i, i));
  {
    const auto pin = staging_->find(3);
    ASSERT_TRUE(pin);
    (*cluster_)[0].hold_transfers(false);
    staging_->progress();
    EXPECT_EQ(landed().size(), 64U);
    EXPECT_FALSE(put(100, 1)) << "the only batch is pinned";
    EXPECT_EQ(std::vector(pin->bytes(), pin->bytes() + kPageSize), page_of(3));
  }
  EXPECT_TRUE(put(100, 1));
}

TEST_F(StagingTest, cancel_beforeTheWrite) {
  open(1);
  fill();
  stage();
  for (std::uint8_t i = 0; i < 10; ++i) ASSERT_TRUE(put(i, i));
  EXPECT_TRUE(staging_->cancel(4));
  EXPECT_FALSE(staging_->cancel(4));
  EXPECT_FALSE(staging_->cancel(400));
  EXPECT_TRUE(staged(4).empty());
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  EXPECT_EQ(landed().size(), 9U);
  EXPECT_FALSE(landed().contains(4));
  EXPECT_TRUE(eventually([&] { return in_use() == 9; })) << "its frame is given back";
}

TEST_F(StagingTest, cancel_duringTheWriteKeepsTheFrameUntilItIsDone) {
  open(1);
  fill();
  stage();
  (*cluster_)[0].hold_transfers(true);
  for (std::uint8_t i = 0; i < 64; ++i) ASSERT_TRUE(put(i, i));
  EXPECT_TRUE(staging_->cancel(4));
  EXPECT_EQ(in_use(), 64U);
  (*cluster_)[0].hold_transfers(false);
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  EXPECT_EQ(landed().size(), 63U);
  EXPECT_TRUE(eventually([&] { return in_use() == 63; }));
}

TEST_F(StagingTest, cancel_allOfThemWritesNothing) {
  open(1);
  fill();
  stage();
  for (std::uint8_t i = 0; i < 10; ++i) ASSERT_TRUE(put(i, i));
  for (std::uint8_t i = 0; i < 10; ++i) EXPECT_TRUE(staging_->cancel(i));
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  EXPECT_EQ(writes(), 0);
  EXPECT_TRUE(eventually([&] { return in_use() == 0; }));
}

TEST_F(StagingTest, put_againAfterCancelTheNewestIsFound) {
  open(1);
  fill();
  stage();
  (*cluster_)[0].hold_transfers(true);
  for (std::uint8_t i = 0; i < 64; ++i) ASSERT_TRUE(put(i, i));
  EXPECT_TRUE(staging_->cancel(5));
  ASSERT_TRUE(put(5, 0x55));
  EXPECT_EQ(staged(5), page_of(0x55));
  (*cluster_)[0].hold_transfers(false);
  staging_->progress();
  EXPECT_EQ(staged(5), page_of(0x55)) << "the old batch has landed without it";
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  EXPECT_EQ(landed().count(5), 1U);
  EXPECT_EQ(remote(5), page_of(0x55));
}

TEST_F(StagingTest, failedWrite_goesToAnotherNode) {
  open(3);
  fill();
  stage();
  auto& dying = (*cluster_)[preferred(3)];
  dying.hold_transfers(true);
  for (std::uint8_t i = 0; i < 64; ++i) ASSERT_TRUE(put(i, i));
  EXPECT_TRUE(landed().empty());
  dying.die();
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  ASSERT_EQ(landed().size(), 64U);
  for (std::uint8_t i = 0; i < 64; ++i) {
    EXPECT_NE(landed().find(i)->second.node.value, preferred(3));
    EXPECT_EQ(remote(i), page_of(i));
  }
  EXPECT_EQ(staging_->stats().failed_writes, 1U);
  EXPECT_EQ(staging_->stats().staged, 0U);
}

TEST_F(StagingTest, retriedBatch_isWrittenWhole) {
  open(3);
  fill();
  stage();
  // Eight frames of the first node, the rest from elsewhere: the batch leaves as two writes.
  auto& first = (*cluster_)[preferred(3)];
  first.refuse(true);
  comex::Run last;
  while (const auto run = pool_->take(64)) {
    if (run->node.value != preferred(3)) {
      pool_->put_back(*run);
      break;
    }
    last = *run;
  }
  pool_->put_back(last.from(last.count - 8));
  for (std::size_t i = 0; i < 3; ++i) (*cluster_)[i].hold_transfers(i != preferred(3));
  for (std::uint8_t i = 0; i < 64; ++i) ASSERT_TRUE(put(i, i));
  ASSERT_EQ(first.writes(), 1);
  staging_->progress();
  EXPECT_TRUE(landed().empty());

  // The first write was acknowledged; then that node lost it, and the second write failed.
  first.restart();
  first.refuse(false);
  for (std::size_t i = 0; i < 3; ++i) {
    auto& node = (*cluster_)[i];
    if (node.pending() > 0) node.drop_links();
    node.hold_transfers(false);
  }
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  ASSERT_EQ(landed().size(), 64U);
  EXPECT_GE(staging_->stats().failed_writes, 2U);
  for (std::uint8_t i = 0; i < 64; ++i) EXPECT_EQ(remote(i), page_of(i));
}

TEST_F(StagingTest, nodeRestartedMidWrite_goesToAnotherOrTheNextSession) {
  open(2);
  fill();
  stage();
  auto& restarting = (*cluster_)[preferred(2)];
  restarting.hold_transfers(true);
  for (std::uint8_t i = 0; i < 64; ++i) ASSERT_TRUE(put(i, i));
  restarting.restart();
  restarting.hold_transfers(false);
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  ASSERT_EQ(landed().size(), 64U);
  for (std::uint8_t i = 0; i < 64; ++i) EXPECT_EQ(remote(i), page_of(i));
}

TEST_F(StagingTest, noNodeLeft_pagesWaitAndAreNotLost) {
  open(1);
  fill();
  stage();
  auto& node = (*cluster_)[0];
  node.hold_transfers(true);
  for (std::uint8_t i = 0; i < 64; ++i) ASSERT_TRUE(put(i, i));
  ASSERT_TRUE(put(64, 64));
  node.die();
  staging_->flush();
  staging_->progress();
  EXPECT_TRUE(eventually([&] {
    staging_->progress();
    return staging_->stats().batches_waiting == 2;
  }));
  EXPECT_EQ(staged(17), page_of(17));
  EXPECT_EQ(staged(64), page_of(64));
  EXPECT_EQ(staging_->drain(Deadline(Millis(5))), Errc::no_memory);
  node.hold_transfers(false);
  node.revive();
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  EXPECT_EQ(landed().size(), 65U);
  EXPECT_EQ(remote(17), page_of(17));
  EXPECT_EQ(remote(64), page_of(64));
  EXPECT_TRUE(eventually([&] { return in_use() == 65; })) << "the frames of the failed write were given back";
}

TEST_F(StagingTest, noFramesAtHand_batchesAreFilledAllTheSame) {
  open(1, 256);
  ASSERT_TRUE(eventually([&] { return pool_->at_hand() == 256; }));
  std::vector<comex::Run> everything;
  while (const auto run = pool_->take(64)) everything.push_back(*run);
  stage();
  for (std::uint8_t i = 0; i < 64; ++i) ASSERT_TRUE(put(i, i));
  EXPECT_EQ(staging_->stats().batches_waiting, 1U);
  EXPECT_EQ(staged(63), page_of(63));
  for (const auto& run : everything) pool_->give_back(run);
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  EXPECT_EQ(remote(63), page_of(63));
}

TEST_F(StagingTest, shortRuns_areJoinedInOneBatch) {
  cluster_ = std::make_unique<FakeCluster>(1, 8192, Millis(60'000));
  (*cluster_)[0].refuse(true);
  (*cluster_)[0].extents_of(3);
  PoolConfig config;
  config.nodes = cluster_->urls();
  config.member = quick_config();
  pool_ = Pool::open(std::move(config), cluster_->connector()).value();
  ASSERT_EQ(pool_->wait_for_frames(64, patience()), Errc::ok);
  stage();
  for (std::uint8_t i = 0; i < 64; ++i) ASSERT_TRUE(put(i, i));
  EXPECT_EQ(staging_->drain(patience()), Errc::ok);
  EXPECT_EQ(landed().size(), 64U);
  EXPECT_EQ(writes(), 1) << "one node, one write, of many segments";
  for (std::uint8_t i = 0; i < 64; ++i) EXPECT_EQ(remote(i), page_of(i));
}

TEST_F(StagingTest, room_endsAndComesBack) {
  open(1);
  fill();
  stage({.batches = 2});
  (*cluster_)[0].hold_transfers(true);
  for (std::uint8_t i = 0; i < 128; ++i) ASSERT_TRUE(put(i, i));
  EXPECT_EQ(staging_->stats().batches_writing, 2U) << "both under way at once";
  EXPECT_FALSE(put(128, 128));
  std::thread releaser([&] { (*cluster_)[0].hold_transfers(false); });
  EXPECT_EQ(staging_->wait_for_room(patience()), Errc::ok);
  EXPECT_TRUE(put(128, 128));
  releaser.join();
}

TEST_F(StagingTest, destructor_waitsForWritesAndGivesTheFramesBack) {
  open(1);
  fill();
  stage();
  (*cluster_)[0].hold_transfers(true);
  for (std::uint8_t i = 0; i < 70; ++i) ASSERT_TRUE(put(i, i));
  std::thread releaser([&] { (*cluster_)[0].hold_transfers(false); });
  staging_.reset();
  releaser.join();
  EXPECT_TRUE(eventually([&] { return in_use() == 0; }));
  EXPECT_TRUE(landed().empty());
}

// A small pager: evicts pages, faults them back from staging or from the nodes, cancels, evicts changed ones. Every
// page must always read as last written.
class ToyPager {
 public:
  static constexpr std::uint64_t kPages = 600;

  explicit ToyPager(Pool& pool) : pool_(pool) {
    StagingConfig config;
    config.batches = 4;
    staging_ = Staging::create(pool, config, [this](std::uint64_t tag, Location where) {
                 const std::uint64_t entry = std::uint64_t{where.node.value} << 32 | where.frame.value;
                 EXPECT_EQ(pages_[tag].entry.exchange(entry), kStaged);
               }).value();
  }

  // Faults a page in, or changes and evicts it.
  void step(std::mt19937& random) {
    const std::uint64_t tag = random() % kPages;
    bool full = false;
    {
      Page& page = pages_[tag];
      const std::lock_guard lock(page.mutex);
      if (page.entry == kLocal) {
        full = !evict(tag, page, static_cast<std::uint8_t>(random()));
      } else {
        fetch(tag, page);
      }
    }
    if (full) (void)staging_->wait_for_room(Deadline(Millis(100)));
    if (random() % 64 == 0) staging_->flush();
  }

  Staging& staging() { return *staging_; }
  [[nodiscard]] std::uint64_t remote_pages() const {
    std::uint64_t n = 0;
    for (const Page& page : pages_) {
      EXPECT_NE(page.entry, kStaged);
      n += page.entry != kLocal;
    }
    return n;
  }

 private:
  static constexpr std::uint64_t kLocal = 1ULL << 60;
  static constexpr std::uint64_t kStaged = 2ULL << 60;
  struct Page {
    std::mutex mutex;                          // one thread at a time faults or evicts it
    std::uint8_t value = 0;                    // what it should read as
    std::atomic<std::uint64_t> entry{kLocal};  // its page-table entry: kLocal, kStaged, or a location
  };

  bool evict(std::uint64_t tag, Page& page, std::uint8_t value) {
    const auto slot = staging_->reserve({&tag, 1});
    if (!slot) return false;
    page.value = value;
    std::memset(slot->memory, value, kPageSize);
    page.entry = kStaged;
    staging_->commit(*slot);
    return true;
  }

  void fetch(std::uint64_t tag, Page& page) {
    auto bytes = page_of(0);
    const std::uint64_t entry = page.entry;
    if (entry == kStaged) {
      const bool found = staging_->copy_out(tag, bytes.data());
      if (!found || !staging_->cancel(tag)) return;  // it lands this moment: the fault comes again
    } else {
      const Location where{NodeId{static_cast<std::uint16_t>(entry >> 32)}, FrameNo{static_cast<std::uint32_t>(entry)}};
      const std::array segment{Segment{where.frame, 1, bytes.data()}};
      while (pool_.read(where.node, segment) != Errc::ok) {
        EXPECT_EQ(pool_.wait_until_decided(where.node, patience()), Errc::ok);
      }
      pool_.give_back(comex::Run{where.node, where.frame, 1});
    }
    EXPECT_EQ(bytes, page_of(page.value)) << "page " << tag;
    page.entry = kLocal;
  }

  Pool& pool_;
  std::vector<Page> pages_ = std::vector<Page>(kPages);
  std::unique_ptr<Staging> staging_;
};

TEST_F(StagingTest, model_pagesAlwaysReadAsLastWrittenWhileLinksBreak) {
  open(3);
  ToyPager pager(*pool_);
  std::atomic<bool> stop{false};
  std::atomic<int> steps{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::mt19937 random(t); !stop; ++steps) pager.step(random);
    });
  }
  std::mt19937 random(9);
  for (int i = 0; i < 15; ++i) {
    const int before = steps;
    EXPECT_TRUE(eventually([&] { return steps > before + 300; }));
    (*cluster_)[random() % 3].drop_links();
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(pager.staging().drain(patience()), Errc::ok);
  const std::uint64_t remote = pager.remote_pages();
  EXPECT_TRUE(eventually([&] { return in_use() == remote; })) << "no frame is lost, none is leaked";
}

}  // namespace
}  // namespace comex

// Staging on frames that stand for two places each.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "pool/fake_link_test.h"
#include "pool/kept_member_test.h"
#include "pool/pool.h"
#include "pool/staging.h"

namespace comex {
namespace {

using testing_support::eventually;
using testing_support::FakeCluster;
using testing_support::page_of;
using testing_support::quick_config;

// Each home has a frame on two nodes of a pool; while one is not there, on one.
class Twins final : public Frames {
 public:
  explicit Twins(Pool& pool) : pool_(pool) {}

  std::optional<comex::Run> take(std::uint32_t want) noexcept override {
    const auto one = pool_.take_apart(want, {});
    if (!one) return std::nullopt;
    const std::array used{one->node};
    const auto two = pool_.take_apart(one->count, used);
    const comex::Run run{NodeId{0}, FrameNo{next_}, two ? std::min(one->count, two->count) : one->count};
    pool_.put_back(one->from(run.count));
    if (two) pool_.put_back(two->from(run.count));
    for (std::uint32_t i = 0; i < run.count; ++i) {
      Places& places = homes_[next_++];
      places.at[places.count++] = one->at(i);
      if (two) places.at[places.count++] = two->at(i);
    }
    return run;
  }
  void put_back(const comex::Run& run) noexcept override { give_back(run); }
  void give_back(const comex::Run& run) noexcept override {
    for (std::uint32_t i = 0; i < run.count; ++i) {
      const Places places = homes_.at(run.first.value + i);
      for (std::uint32_t copy = 0; copy < places.count; ++copy) {
        pool_.give_back({places.at[copy].node, places.at[copy].frame, 1});
      }
      homes_.erase(run.first.value + i);
    }
  }
  [[nodiscard]] std::uint32_t at_hand() const noexcept override { return pool_.at_hand(); }
  [[nodiscard]] std::uint32_t copies() const noexcept override { return 2; }
  [[nodiscard]] Places places_of(Location home) const noexcept override {
    return sealed.contains(home.frame.value) ? Places{} : homes_.at(home.frame.value);
  }
  std::uint32_t begin_writes() noexcept override { return ++writing, 7; }
  void end_writes(std::uint32_t ticket) noexcept override {
    EXPECT_EQ(ticket, 7U);
    --writing;
  }
  void submit(NodeId node, Transfer& transfer) noexcept override { pool_.submit(node, transfer); }
  void poll(NodeId node) noexcept override { pool_.poll(node); }
  Errc wait(NodeId node, Transfer& transfer) noexcept override { return pool_.wait(node, transfer); }
  Errc wait_until_decided(NodeId node, const Deadline& deadline) noexcept override {
    return pool_.wait_until_decided(node, deadline);
  }
  Errc wait_for_frames(std::uint32_t count, const Deadline& deadline) noexcept override {
    return pool_.wait_for_frames(count, deadline);
  }

  std::set<std::uint32_t> sealed;
  int writing = 0;

 private:
  Pool& pool_;
  std::map<std::uint32_t, Places> homes_;
  std::uint32_t next_ = 0;
};

class StagingCopiesTest : public ::testing::Test {
 protected:
  StagingCopiesTest() {
    PoolConfig config;
    config.nodes = cluster_.urls();
    config.member = quick_config();
    config.pid = 42;
    config.copies = 2;
    pool_ = *Pool::open(std::move(config), cluster_.connector());
    frames_.emplace(*pool_);
    EXPECT_TRUE(eventually([&] {
      int ready = 0;
      for (const auto& node : pool_->status()) ready += node.at_hand >= 512;
      return ready == 2;
    }));
    staging_ = *Staging::create(*frames_, {}, [this](Tag tag, Location home) { landed_[tag] = home; });
  }
  void put(std::uint8_t pages) {
    for (std::uint8_t i = 0; i < pages; ++i) ASSERT_TRUE(staging_->put(i, page_of(i).data()));
  }
  // The page is on so many nodes, and right on each.
  void expect_copies(std::uint8_t tag, std::uint32_t count) {
    const Places places = frames_->places_of(landed_.at(tag));
    EXPECT_EQ(places.count, count);
    for (std::uint32_t i = 0; i < places.count; ++i) {
      auto page = page_of(0);
      EXPECT_EQ(pool_->read(places.at[i].node, std::array{Segment{places.at[i].frame, 1, page.data()}}), Errc::ok);
      EXPECT_EQ(page, page_of(tag));
    }
  }

  FakeCluster cluster_{2, 8192, Millis(60'000)};
  std::unique_ptr<Pool> pool_;
  std::optional<Twins> frames_;
  std::unique_ptr<Staging> staging_;
  std::map<Tag, Location> landed_;
};

TEST_F(StagingCopiesTest, aBatchIsOneWriteToEachNode) {
  put(64);
  EXPECT_EQ(landed_.size(), 64U);
  EXPECT_EQ(cluster_[0].writes(), 1);
  EXPECT_EQ(cluster_[1].writes(), 1);
  expect_copies(0, 2);
  expect_copies(63, 2);
}

TEST_F(StagingCopiesTest, nothingLandsBeforeAllCopiesHave) {
  cluster_[1].hold_transfers(true);
  put(64);
  staging_->progress();
  EXPECT_EQ(cluster_[0].pending(), 0U);
  EXPECT_TRUE(landed_.empty());
  EXPECT_EQ(frames_->writing, 1);
  cluster_[1].hold_transfers(false);
  staging_->progress();
  EXPECT_EQ(landed_.size(), 64U);
  EXPECT_EQ(frames_->writing, 0);
}

TEST_F(StagingCopiesTest, whatFailsOnOneNodeGetsOtherFrames) {
  cluster_[1].hold_transfers(true);
  put(64);
  cluster_[1].die();
  ASSERT_TRUE(eventually([&] { return staging_->progress(), landed_.size() == 64; }));
  for (std::uint8_t i = 0; i < 64; ++i) expect_copies(i, 1);
  EXPECT_GT(staging_->stats().failed_writes, 0U);
}

TEST_F(StagingCopiesTest, whatIsSealedIsNotWritten) {
  ASSERT_TRUE(staging_->put(0, page_of(0).data()));  // the batch has its frames now
  for (std::uint32_t home = 0; home < 32; ++home) frames_->sealed.insert(home);
  for (std::uint8_t i = 1; i < 64; ++i) ASSERT_TRUE(staging_->put(i, page_of(i).data()));
  ASSERT_EQ(landed_.size(), 64U);
  for (std::uint8_t i = 0; i < 64; ++i) {
    EXPECT_FALSE(frames_->sealed.contains(landed_.at(i).frame.value));
    expect_copies(i, 2);
  }
}

}  // namespace
}  // namespace comex

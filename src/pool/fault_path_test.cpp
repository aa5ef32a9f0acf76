// What may run in a signal handler must not allocate. The counter sees every allocation made through operator new by
// this thread; malloc itself is not called by this layer. The address sanitizer keeps its own operators, to tell which
// of them memory came from: there nothing is counted.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>
#include <vector>

#include "pool/fake_link_test.h"
#include "pool/kept_member_test.h"
#include "pool/pool.h"
#include "pool/staging.h"

namespace {

thread_local std::uint64_t allocations = 0;

[[maybe_unused]] void* counted(std::size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__)
void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace comex {
namespace {

using testing_support::eventually;
using testing_support::FakeCluster;
using testing_support::page_of;
using testing_support::quick_config;

class FaultPathTest : public ::testing::Test {
 protected:
  FaultPathTest() {
    PoolConfig config;
    config.nodes = cluster_.urls();
    config.member = quick_config();
    pool_ = Pool::open(std::move(config), cluster_.connector()).value();
    EXPECT_EQ(pool_->wait_for_frames(1024, Deadline(std::chrono::minutes(1))), Errc::ok);
  }
  FakeCluster cluster_{2};
  std::unique_ptr<Pool> pool_;
};

TEST_F(FaultPathTest, pool_allocatesNothing) {
  auto page = page_of(1);
  const auto before = allocations;
  for (int i = 0; i < 100; ++i) {
    const auto run = pool_->take(3);
    if (!run) continue;
    const std::array segment{Segment{run->first, 1, page.data()}};
    EXPECT_EQ(pool_->write(run->node, segment), Errc::ok);
    EXPECT_EQ(pool_->read(run->node, segment), Errc::ok);
    Transfer transfer(Direction::read, segment);
    pool_->submit(run->node, transfer);
    pool_->poll(run->node);
    EXPECT_EQ(pool_->wait(run->node, transfer), Errc::ok);
    EXPECT_EQ(pool_->wait_until_decided(run->node, Deadline(Millis(1))), Errc::ok);
    EXPECT_EQ(pool_->wait_for_frames(1, Deadline(Millis(1))), Errc::ok);
    pool_->give_back(comex::Run{run->node, run->first, 1});
    pool_->put_back(run->from(1));
  }
  EXPECT_EQ(allocations, before);
}

TEST_F(FaultPathTest, pool_allocatesNothingWhenTheNodeIsGone) {
  auto page = page_of(1);
  const auto run = pool_->take(1).value();
  const std::array segment{Segment{run.first, 1, page.data()}};
  for (std::size_t i = 0; i < cluster_.size(); ++i) cluster_[i].die();
  const auto before = allocations;
  EXPECT_EQ(pool_->read(run.node, segment), Errc::disconnected);
  EXPECT_EQ(pool_->wait_until_decided(run.node, Deadline(Millis(1))), Errc::timeout);
  (void)pool_->take(1);
  EXPECT_EQ(allocations, before);
}

TEST_F(FaultPathTest, staging_allocatesNothing) {
  std::uint64_t landed = 0;
  auto staging = Staging::create(*pool_, {}, [&](Tag, Location) { ++landed; }).value();
  auto page = page_of(1);
  const auto before = allocations;
  for (Tag tag = 0; tag < 1000; ++tag) {
    ASSERT_TRUE(staging->put(tag, page.data()));
    (void)staging->copy_out(tag, page.data());
    if (tag % 7 == 0) (void)staging->cancel(tag);
    if (tag % 50 == 0) staging->flush();
    staging->progress();
  }
  EXPECT_EQ(staging->drain(Deadline(std::chrono::minutes(1))), Errc::ok);
  EXPECT_EQ(allocations, before);
  EXPECT_GT(landed, 800U);
}

}  // namespace
}  // namespace comex

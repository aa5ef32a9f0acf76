// A pager on a program of a few pages, with a budget of fewer, for the tests of this layer.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "pager/evict/choice.h"
#include "pager/fake_program_test.h"
#include "pager/prefetch/choice.h"

namespace comex::testing_support {

constexpr PageNo kFirst = FakeMemory::kFirst;

class SomePins final : public Pins {
 public:
  [[nodiscard]] std::uint64_t pinned(BlockNo block) const noexcept override {
    return block == BlockNo::of(kFirst) ? first_block.load() : 0;
  }
  std::atomic<std::uint64_t> first_block{0};
};

class PagerFixture : public ::testing::Test {
 protected:
  void begin(std::uint32_t pages, std::uint32_t local, std::uint16_t nodes = 1,
             const Prefetcher& prefetcher = prefetcher_of(Prefetch::next)) {
    test_ = ++tests;
    pages_ = pages;
    memory_ = std::make_unique<FakeMemory>(pages);
    frames_ = std::make_unique<FakeFrames>(nodes, pages + 1024);
    if (two_copies_) frames_->keep_two_copies();
    words_.set(local, local / 4);
    victims_ = make_victims(evict_, *memory_, pages, budget_);
    Victims& victims = own_victims_ != nullptr ? *own_victims_ : *victims_;
    auto pager =
        Pager::create({*memory_, *frames_, budget_, victims, prefetcher, pins_, sizes_, *sealer_}, {.batches = 8});
    ASSERT_TRUE(pager) << pager.error().message;
    pager_ = *std::move(pager);
    ASSERT_EQ(pager_->adopt(PageRun{kFirst, pages}), Errc::ok);
  }
  // What the program does, with the faults it takes.
  std::uint64_t load(std::uint32_t page, std::uint64_t word = 0) {
    std::uint64_t value = 0;
    while (!memory_->load(kFirst + page, word, &value) && resolve(page, false) != Served::lost) {
    }
    return value;
  }
  void store(std::uint32_t page, std::uint64_t value, std::uint64_t word = 0) {
    while (!memory_->store(kFirst + page, word, value) && resolve(page, true) != Served::lost) {
    }
  }
  Served resolve(std::uint32_t page, bool write) {
    thread_local std::vector<std::byte> bounce((1 + Faulter::kMostAlong) * kPageSize);
    thread_local Faulter faulter{bounce.data(), {}};
    thread_local std::uint32_t test = 0;
    if (test != test_) faulter.history = {};  // of another test
    test = test_;
    last_ = pager_->fault(kFirst + page, write, faulter);
    EXPECT_NE(last_, Served::not_ours);
    EXPECT_NE(last_, Served::failed);
    return last_;
  }
  PageState state(std::uint32_t page) { return pager_->table().load(kFirst + page).state(); }
  void send_all() {
    while (pager_->evict(1) > 0) {
    }
    ASSERT_EQ(pager_->staging().drain(Deadline(std::chrono::seconds(10))), Errc::ok);
  }
  std::uint64_t faults(Served served) { return pager_->stats().faults[static_cast<std::size_t>(served)]; }

  static inline std::uint32_t tests = 0;
  std::uint32_t test_ = 0;
  Evict evict_ = Evict::fifo;
  std::uint32_t pages_ = 0;
  Budget words_;
  Account account_;
  Share budget_{words_, account_};
  std::unique_ptr<FakeMemory> memory_;
  std::unique_ptr<FakeFrames> frames_;
  Pager::Sizes sizes_;  // as usual, unless a test says otherwise before begin()
  const Sealer* sealer_ = &kNoSeal;
  bool two_copies_ = false;
  std::unique_ptr<Victims> victims_;
  std::unique_ptr<Victims> own_victims_;  // a test's own, instead of what evict_ says
  SomePins pins_;
  std::unique_ptr<Pager> pager_;
  std::atomic<Served> last_{Served::already};
};

}  // namespace comex::testing_support

// What each policy does with the faults of a program, without one: a page is local or not, and that is all.
#include <gtest/gtest.h>

#include <bit>
#include <optional>
#include <random>
#include <vector>

#include "pager/evict/choice.h"
#include "pager/evict/own_memory_test.h"
#include "pager/evict/second_chance.h"
#include "pager/evict/two_queues.h"

namespace comex {
namespace {

using testing_support::OnlyOwn;

// Does what the pager does, with as many local pages as it has room for.
class PagedProgram {
 public:
  PagedProgram(Evict evict, std::uint32_t pages, std::uint32_t local) : pages_(pages), local_(local) {
    victims_ = make_victims(evict, memory_, pages, share_);
    for (auto& queued : queued_) queued.resize(pages / kBlockPages + 1, false);
  }

  void touch(std::uint32_t page) {
    Page& at = pages_[page];
    if (at.local) return;
    ++faults_;
    while (account_.local >= local_) evict_one();
    at.mark = victims_->arrive(PageNo{page}, at.known ? std::optional(at.mark) : std::nullopt);
    at.local = at.known = true;
    share_.charge(1);
    admit(page);
  }
  std::uint64_t take_faults() { return std::exchange(faults_, 0); }
  [[nodiscard]] bool local(std::uint32_t page) const { return pages_[page].local; }
  [[nodiscard]] Victims& victims() { return *victims_; }

  // The program gives the page back.
  void discard(std::uint32_t page) {
    Page& at = pages_[page];
    if (at.local) {
      victims_->forget(at.mark);
      share_.release(1);
    }
    at = Page{};
  }

 private:
  struct Page {
    bool local = false;
    bool known = false;
    Mark mark;
  };

  void admit(std::uint32_t page) {
    const unsigned queue = victims_->queue_of(pages_[page].mark);
    const std::uint32_t block = page / kBlockPages;
    if (queued_[queue][block]) return;
    queued_[queue][block] = true;
    victims_->admit(BlockNo{block}, queue);
  }
  void evict_one() {
    const auto victim = victims_->next(false);
    ASSERT_TRUE(victim);
    queued_[victim->queue][victim->block.value] = false;
    std::vector<Page*> leaving;
    for (std::uint32_t page = victim->block.value * kBlockPages; page < pages_.size(); ++page) {
      if (page / kBlockPages != victim->block.value) break;
      Page& at = pages_[page];
      if (!at.local || victims_->queue_of(at.mark) != victim->queue) continue;
      if (victims_->spare(at.mark)) {
        admit(page);
      } else {
        leaving.push_back(&at);
      }
    }
    if (leaving.empty()) return;
    const Mark mark = victims_->leave(victim->queue, leaving.size());
    for (Page* each : leaving) *each = Page{.local = false, .known = true, .mark = mark};
    share_.release(leaving.size());
  }

  OnlyOwn memory_;
  Budget budget_;
  Account account_;
  Share share_{budget_, account_};
  std::unique_ptr<Victims> victims_;
  std::vector<Page> pages_;
  const std::uint32_t local_;
  std::array<std::vector<bool>, Victims::kMostQueues> queued_;
  std::uint64_t faults_ = 0;
};

constexpr std::uint32_t kLocal = 4096;

std::uint32_t any_of(std::mt19937& random, std::uint32_t count) {
  return static_cast<std::uint32_t>(random() % count);
}

// Faults of each further round of a loop over so many pages.
std::uint64_t loop(Evict evict, std::uint32_t pages) {
  constexpr int kRounds = 12;
  constexpr int kFirst = 6;  // to be left out
  PagedProgram program(evict, pages, kLocal);
  for (int round = 0; round < kRounds; ++round) {
    if (round == kFirst) program.take_faults();
    for (std::uint32_t page = 0; page < pages; ++page) program.touch(page);
  }
  return program.take_faults() / (kRounds - kFirst);
}

// Touches of a hot set of half the local pages, scattered over all, alternate with those of an endless scan.
std::uint64_t scan_over_a_hot_set(Evict evict) {
  constexpr std::uint32_t kPages = 6 * kLocal;
  PagedProgram program(evict, kPages, kLocal);
  std::mt19937 random(1);
  std::uint32_t scan = 0;
  std::uint64_t faults = 0;
  for (std::uint32_t i = 0; i < 2 * kPages; ++i) {
    if (i == kPages) program.take_faults();
    const std::uint32_t hot = any_of(random, kLocal / 2) * 12 % kPages;
    const bool was_local = program.local(hot);
    program.touch(hot);
    if (i >= kPages) faults += !was_local;
    program.touch(scan);
    scan = (scan + 1) % kPages;
  }
  return faults;
}

TEST(FifoTest, loop_thatIsALittleTooLarge_missesAll) {
  EXPECT_EQ(loop(Evict::fifo, kLocal * 11 / 10), kLocal * 11 / 10);
  EXPECT_EQ(loop(Evict::fifo, kLocal), 0U);
}

TEST(SecondChanceTest, arrive_whatIsMissedSoonIsSparedForSomeRounds) {
  OnlyOwn memory;
  Budget budget;
  Account account;
  Share share(budget, account);
  share.charge(kLocal);
  SecondChance victims(memory, 64, share);
  EXPECT_EQ(victims.arrive(PageNo{1}, std::nullopt), Mark{}) << "the first touch says nothing";
  const Mark left = victims.leave(0, kLocal / 4);
  Mark mark = victims.arrive(PageNo{1}, left);
  for (int round = 0; round < SecondChance::kRounds; ++round) EXPECT_TRUE(victims.spare(mark));
  EXPECT_FALSE(victims.spare(mark));
  for (int i = 0; i < 4; ++i) victims.leave(0, kLocal / 4);
  EXPECT_EQ(victims.arrive(PageNo{1}, left), Mark{}) << "so much has left since that it could not have stayed";
}

TEST(SecondChanceTest, scanOverAHotSet_missesLessOfItThanFifo) {
  EXPECT_LT(scan_over_a_hot_set(Evict::clock), scan_over_a_hot_set(Evict::fifo) * 3 / 4);
}

TEST(TwoQueuesTest, scanOverAHotSet_missesNextToNothingOfIt) {
  EXPECT_LT(scan_over_a_hot_set(Evict::two_queues), scan_over_a_hot_set(Evict::fifo) / 20);
}

TEST(TwoQueuesTest, loop_mostOfItStays) {
  EXPECT_LT(loop(Evict::two_queues, kLocal * 11 / 10), kLocal * 3 / 10) << "a tenth has to be missed";
  EXPECT_LT(loop(Evict::two_queues, kLocal * 2), kLocal * 13 / 10) << "half has to be";
}

TEST(TwoQueuesTest, arrive_whatIsUsedNowPushesOutWhatWasUsedBefore) {
  PagedProgram program(Evict::two_queues, 4 * kLocal, kLocal);
  std::mt19937 random(1);
  const auto use = [&](std::uint32_t first, int times) {
    for (int i = 0; i < times; ++i) {
      program.touch(any_of(random, 4) == 0 ? any_of(random, 4 * kLocal) : first + any_of(random, kLocal * 3 / 4));
    }
    return program.take_faults();
  };
  constexpr int kTimes = 10 * kLocal;
  use(0, 2 * kTimes);
  const std::uint64_t settled = use(0, kTimes);
  use(2 * kLocal, kTimes);
  EXPECT_LT(use(2 * kLocal, kTimes), settled * 3 / 2);
}

TEST(TwoQueuesTest, next_whatIsInVainIsLookedForInTheOtherQueue) {
  OnlyOwn memory;
  Budget budget;
  Account account;
  Share share(budget, account);
  share.charge(kLocal);
  TwoQueues victims(memory, 64, share);
  for (std::uint32_t block = 0; block < 3; ++block) victims.admit(BlockNo{block}, TwoQueues::kProbation);
  victims.admit(BlockNo{7}, TwoQueues::kMain);
  EXPECT_EQ(victims.next(false), (Victim{BlockNo{0}, TwoQueues::kProbation}));
  EXPECT_EQ(victims.next(true), (Victim{BlockNo{7}, TwoQueues::kMain}));
  EXPECT_EQ(victims.next(true), (Victim{BlockNo{1}, TwoQueues::kProbation}));
  EXPECT_EQ(victims.next(true), (Victim{BlockNo{2}, TwoQueues::kProbation})) << "the other is empty";
  EXPECT_EQ(victims.next(false), std::nullopt);
}

TEST(TwoQueuesTest, forget_whatTheProgramGivesBackIsNotCounted) {
  PagedProgram program(Evict::two_queues, 2 * kLocal, kLocal);
  for (int round = 0; round < 4; ++round) {
    for (std::uint32_t page = 0; page < 2 * kLocal; ++page) program.touch(page);
  }
  const auto& victims = dynamic_cast<const TwoQueues&>(program.victims());
  EXPECT_GT(victims.in_main(), kLocal / 2);
  EXPECT_LE(victims.in_main(), kLocal - kLocal / TwoQueues::kProbationShare + kBlockPages);
  for (std::uint32_t page = 0; page < 2 * kLocal; ++page) program.discard(page);
  EXPECT_EQ(victims.in_main(), 0U);
}

}  // namespace
}  // namespace comex

// Pages that come back are those that left, or the program does not go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "pager/pager_fixture_test.h"
#include "pager/seal/checksum.h"
#include "pager/seal/cipher.h"

namespace comex {
namespace {

using testing_support::kFirst;
using testing_support::PagerFixture;

constexpr std::uint32_t kSealedPages = 512;

// With each sealer that looks at pages.
class PagerSealTest : public PagerFixture, public ::testing::WithParamInterface<const char*> {
 protected:
  PagerSealTest() {
    if (GetParam() == std::string("cipher")) {
      sealer_ = &cipher_;
    } else {
      sealer_ = &checksum_;
    }
  }
  // All pages have been written, and are remote.
  void begin_remote(const Prefetcher& prefetcher = prefetcher_of(Prefetch::none)) {
    begin(kSealedPages, kSealedPages, 1, prefetcher);
    for (std::uint32_t page = 0; page < kSealedPages; ++page) store(page, value_of(page));
    send_all();
  }
  static std::uint64_t value_of(std::uint32_t page) { return 0x1234'5678'0000'0000 + page; }
  Location location(std::uint32_t page) { return pager_->table().load(kFirst + page).location(); }
  void spoil(std::uint32_t page) { frames_->bytes_at(location(page))[17] ^= std::byte{4}; }
  std::uint64_t wrong() { return pager_->stats().wrong; }
  std::uint64_t mended() { return pager_->stats().mended; }

  CipherKey key_;
  const Checksum checksum_;
  const Cipher cipher_{key_};
};

INSTANTIATE_TEST_SUITE_P(With, PagerSealTest, ::testing::Values("checksum", "cipher"),
                         [](const auto& with) { return std::string(with.param); });

TEST_P(PagerSealTest, fault_bringsBackWhatWasWritten) {
  begin_remote(prefetcher_of(Prefetch::automatic));
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t page = 0; page < kSealedPages; ++page) EXPECT_EQ(load(page), value_of(page));
    if (round == 1) {
      for (std::uint32_t page = 0; page < kSealedPages; page += 3) store(page, value_of(page));
    }
    send_all();  // what is clean keeps its seal
  }
  EXPECT_EQ(wrong(), 0U);
}

TEST_P(PagerSealTest, fault_fromStaging) {
  begin(kSealedPages, kSealedPages);
  frames_->hold_writes(true);
  for (std::uint32_t page = 0; page < 64; ++page) store(page, value_of(page));
  while (pager_->evict(1) > 0) {
  }
  ASSERT_EQ(state(7), PageState::staged);
  EXPECT_EQ(load(7), value_of(7));
  EXPECT_EQ(faults(Served::staged), 1U);
  frames_->hold_writes(false);
}

TEST_P(PagerSealTest, fault_neverPlacesAWrongPage) {
  begin_remote();
  spoil(7);
  EXPECT_EQ(resolve(7, false), Served::lost);
  EXPECT_EQ(resolve(7, true), Served::lost);
  EXPECT_FALSE(memory_->there(kFirst + 7));
  EXPECT_EQ(wrong(), 2U);
  EXPECT_EQ(mended(), 0U);
  EXPECT_EQ(budget_.local(), 0U);
  EXPECT_EQ(load(8), value_of(8)) << "others can be had";
}

TEST_P(PagerSealTest, fault_wrongPageThatWouldComeAlongStaysAway) {
  begin_remote(prefetcher_of(Prefetch::next));
  for (const std::uint32_t page : {40U, 41U, 42U}) spoil(page);
  for (std::uint32_t page = 0; page < 40; ++page) EXPECT_EQ(load(page), value_of(page));
  EXPECT_GT(wrong(), 0U) << "it came along with another";
  for (const std::uint32_t page : {40U, 41U, 42U}) EXPECT_FALSE(memory_->there(kFirst + page));
  EXPECT_EQ(resolve(41, false), Served::lost);
  for (std::uint32_t page = 43; page < 100; ++page) EXPECT_EQ(load(page), value_of(page));
}

TEST_P(PagerSealTest, fault_pageThatWasSpoiltOnTheWayIsReadAgain) {
  begin_remote();
  frames_->spoil_reads = 1;
  EXPECT_EQ(load(7), value_of(7));
  EXPECT_EQ(wrong(), 1U);
  EXPECT_EQ(mended(), 1U);
}

TEST_P(PagerSealTest, fault_wrongPageOfTheReadBufferIsReadAgain) {
  class ToBuffer final : public Prefetcher {
    Plan plan(History&, const Miss& miss) const noexcept override {
      return miss.page == kFirst + 100 ? Plan{.after = 7, .mapped = false} : Plan{};
    }
    void brought(History&, const Miss&, const Plan&, const Brought&) const noexcept override {}
  };
  const ToBuffer prefetcher;
  sizes_.buffer = 64;
  begin_remote(prefetcher);
  spoil(101);
  EXPECT_EQ(load(100), value_of(100));
  spoil(101);  // its frame is right again, the copy in the buffer is not
  EXPECT_EQ(load(101), value_of(101));
  EXPECT_EQ(last_, Served::buffered);
  EXPECT_EQ(mended(), 1U);
  EXPECT_EQ(load(102), value_of(102));
  EXPECT_EQ(wrong(), 1U);
}

TEST_P(PagerSealTest, relocate_takesTheSealAlong) {
  begin(2 * kSealedPages, 2 * kSealedPages);
  for (std::uint32_t page = 0; page < 64; ++page) store(page, value_of(page));
  send_all();
  pager_->hold(PageRun{kFirst, 64});
  memory_->move(PageRun{kFirst, 64}, kFirst + kSealedPages);
  ASSERT_EQ(pager_->relocate(PageRun{kFirst, 64}, kFirst + kSealedPages, PageState::untouched), Errc::ok);
  for (std::uint32_t page = 0; page < 64; ++page) EXPECT_EQ(load(kSealedPages + page), value_of(page));
  EXPECT_EQ(wrong(), 0U);
}

// A second copy of each page, which is right.
class PagerMendTest : public PagerSealTest {
 protected:
  PagerMendTest() { two_copies_ = true; }
};

INSTANTIATE_TEST_SUITE_P(With, PagerMendTest, ::testing::Values("checksum", "cipher"),
                         [](const auto& with) { return std::string(with.param); });

TEST_P(PagerMendTest, fault_wrongPageIsTakenFromTheOtherCopyAndWrittenAnew) {
  begin_remote(prefetcher_of(Prefetch::next));
  for (const std::uint32_t page : {7U, 8U}) spoil(page);
  const std::uint64_t frames = frames_->used();
  EXPECT_EQ(load(7), value_of(7));
  EXPECT_EQ(load(8), value_of(8));
  EXPECT_EQ(wrong(), 2U);
  EXPECT_EQ(mended(), 2U);
  EXPECT_FALSE(pager_->table().load(kFirst + 7).clean());
  EXPECT_EQ(frames_->used(), frames - 2) << "the frames with the wrong copies are given up";
  store(7, value_of(7));  // nothing guards it any more
  send_all();
  for (std::uint32_t page = 0; page < kSealedPages; ++page) EXPECT_EQ(load(page), value_of(page));
  EXPECT_EQ(wrong(), 2U);
}

// While a copy of it is made elsewhere, say.
TEST_P(PagerMendTest, fault_theOtherCopyIsReadAlsoWhenNothingMayBeWrittenThere) {
  begin_remote();
  spoil(7);
  frames_->sealed = true;
  EXPECT_EQ(load(7), value_of(7));
  EXPECT_EQ(mended(), 1U);
  frames_->sealed = false;
}

TEST_P(PagerMendTest, fault_tellsWhereThePageWasWrong) {
  begin_remote();
  const Location where = location(7);
  spoil(7);
  std::vector<std::byte> bounce((1 + Faulter::kMostAlong) * kPageSize);
  Faulter faulter{bounce.data(), {}};
  EXPECT_EQ(pager_->fault(kFirst + 7, false, faulter), Served::remote);
  EXPECT_EQ(faulter.wrong, 1U);
  EXPECT_EQ(faulter.wrong_at, where);
  EXPECT_EQ(pager_->fault(kFirst + 8, false, faulter), Served::remote);
  EXPECT_EQ(faulter.wrong, 0U);
}

// --- encryption ---

class PagerCipherTest : public PagerFixture {
 protected:
  PagerCipherTest() { sealer_ = &cipher_; }

  CipherKey key_;
  const Cipher cipher_{key_};
};

TEST_F(PagerCipherTest, evict_noFrameEverHasAPagesBytes) {
  constexpr std::uint64_t kSecret = 0x5ec2e75ec2e75ec2;
  begin(kSealedPages, kSealedPages);
  for (std::uint32_t page = 0; page < kSealedPages; ++page) {
    for (std::uint64_t word = 0; word < kPageSize / sizeof word; word += 17) store(page, kSecret, word);
  }
  send_all();
  const auto all = frames_->all_bytes();
  std::array<std::byte, sizeof kSecret> secret;
  std::memcpy(secret.data(), &kSecret, sizeof kSecret);
  EXPECT_EQ(std::search(all.begin(), all.end(), secret.begin(), secret.end()), all.end());
  EXPECT_EQ(load(9, 17), kSecret);
}

TEST_F(PagerCipherTest, fault_refusesAnOlderPageOfTheSameFrame) {
  begin(64, 64);
  store(7, 1);
  send_all();
  const Location where = pager_->table().load(kFirst + 7).location();
  std::array<std::byte, kPageSize> older;
  std::memcpy(older.data(), frames_->bytes_at(where), kPageSize);
  store(7, 2);
  send_all();
  ASSERT_EQ(pager_->table().load(kFirst + 7).location(), where) << "the frame was given back, and is the first again";
  std::memcpy(frames_->bytes_at(where), older.data(), kPageSize);
  EXPECT_EQ(resolve(7, false), Served::lost);
}

// --- pages that are to be elsewhere ---

TEST_P(PagerSealTest, tidy_writesPagesElsewhereWhoseFramesAreWorn) {
  begin_remote();
  for (std::uint32_t page = 0; page < kSealedPages; page += 2) frames_->worn.insert(location(page).frame.value);
  const auto still_worn = [&] {
    std::uint32_t count = 0;
    for (std::uint32_t page = 0; page < kSealedPages; ++page) count += frames_->is_worn(location(page));
    return count;
  };
  for (int turn = 0; still_worn() > 0; ++turn) {
    ASSERT_LT(turn, 100);
    pager_->tidy();
    ASSERT_EQ(pager_->staging().drain(Deadline(std::chrono::seconds(10))), Errc::ok);
  }
  EXPECT_EQ(frames_->used(), kSealedPages);
  for (std::uint32_t page = 0; page < kSealedPages; ++page) EXPECT_EQ(load(page), value_of(page));
}

TEST_P(PagerSealTest, tidy_leavesAWrongPageWhereItIs) {
  begin_remote();
  spoil(7);
  const Location before = location(7);
  frames_->worn.insert(before.frame.value);
  pager_->tidy();
  EXPECT_EQ(location(7), before);
  EXPECT_EQ(resolve(7, false), Served::lost);
}

TEST_P(PagerSealTest, fault_aPageWhoseFrameIsWornIsSentAgain) {
  begin_remote();
  frames_->worn.insert(location(7).frame.value);
  EXPECT_EQ(load(7), value_of(7));
  EXPECT_EQ(frames_->used(), kSealedPages - 1);
  EXPECT_EQ(load(8), value_of(8));
  EXPECT_EQ(frames_->used(), kSealedPages - 1) << "others keep theirs";
  send_all();
  EXPECT_EQ(load(7), value_of(7));
}

}  // namespace
}  // namespace comex

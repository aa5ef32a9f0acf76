#include "run/keeper/chunk_store.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <random>
#include <set>

#include "run/keeper_wire.h"

namespace comex {
namespace {

constexpr NodeId kA{1}, kB{2}, kC{3};
using FrameRun = Run;  // a test has a Run() of its own

class ChunkStoreTest : public ::testing::Test {
 protected:
  static bool any(ChunkNo) { return true; }
  ChunkNo add(std::uint32_t first, std::uint32_t count = kChunkFrames) {
    const std::array places{FrameRun{kA, FrameNo{first}, count}, FrameRun{kB, FrameNo{first + 1000}, count}};
    return store_->add(places).value();
  }
  FrameRun take(std::uint32_t want) { return store_->take(want, any).value(); }

  std::vector<FrameRun> given_back_;
  std::unique_ptr<ChunkStore> store_ =
      *ChunkStore::make(2, [this](const FrameRun& run) { given_back_.push_back(run); });
};

TEST_F(ChunkStoreTest, take_theEmptiestChunkFirstAndItsLongestRun) {
  const ChunkNo first = add(0);
  EXPECT_EQ(take(64).first, first_home(first));
  const ChunkNo second = add(64);
  EXPECT_EQ(take(64).first, first_home(second));
  store_->give_back({kHome, first_home(first), 1});
  store_->give_back({kHome, first_home(second) + 10, 3});
  store_->give_back({kHome, first_home(second) + 20, 5});
  EXPECT_EQ(take(64), (FrameRun{kHome, first_home(second) + 20, 5}));
  EXPECT_EQ(take(2), (FrameRun{kHome, first_home(second) + 10, 2}));
}

TEST_F(ChunkStoreTest, giveBack_theLastHomeGivesThePlacesBack) {
  add(0, 40);
  const FrameRun homes = take(64);
  EXPECT_EQ(homes.count, 40U);
  store_->give_back(homes.from(1));
  EXPECT_TRUE(given_back_.empty());
  store_->give_back({kHome, homes.first, 1});
  EXPECT_EQ(given_back_, (std::vector{FrameRun{kA, FrameNo{0}, 40}, FrameRun{kB, FrameNo{1000}, 40}}));
  EXPECT_FALSE(store_->take(1, any));
  EXPECT_EQ(store_->used() + store_->free(), 0U);
}

// Random writes leave holes: no more than one for four pages, once there are many.
TEST_F(ChunkStoreTest, wasteful_whenAFifthIsFree) {
  constexpr std::uint32_t kChunks = 1'000;
  for (std::uint32_t i = 0; i < kChunks; ++i) {
    add(i * kChunkFrames);
    EXPECT_EQ(take(kChunkFrames).count, kChunkFrames);
  }
  for (std::uint32_t i = 0; i < kChunks; ++i) store_->give_back({kHome, first_home(ChunkNo{i}), kChunkFrames / 5});
  EXPECT_FALSE(store_->wasteful());
  for (std::uint32_t i = 0; i < kChunks; ++i) store_->give_back({kHome, first_home(ChunkNo{i}) + 20, 1});
  EXPECT_TRUE(store_->wasteful());
}

TEST_F(ChunkStoreTest, take_whatIsNotAdmittedWaitsForAnotherLook) {
  const ChunkNo chunk = add(0);
  EXPECT_FALSE(store_->take(1, [](ChunkNo) { return false; }));
  EXPECT_FALSE(store_->take(1, any));
  store_->look_again();
  EXPECT_EQ(take(1).first, first_home(chunk));
}

TEST_F(ChunkStoreTest, lose_oneOfTwoPlaces) {
  const ChunkNo chunk = add(0);
  (void)take(10);
  const auto loss = store_->lose(kA);
  EXPECT_EQ(loss.gone, 0U);
  EXPECT_EQ(loss.fewer_places, std::vector{chunk});
  EXPECT_EQ(store_->thin(), kChunkFrames);
  EXPECT_EQ(store_->places(chunk).count, 1U);
  EXPECT_EQ(store_->places(chunk).at[0], (Location{kB, FrameNo{1000}}));
}

TEST_F(ChunkStoreTest, lose_theLastPlace) {
  const ChunkNo chunk = add(0);
  const FrameRun homes = take(10);
  (void)store_->lose(kA);
  EXPECT_EQ(store_->lose(kB).gone, 10U);
  EXPECT_EQ(store_->places(chunk).count, 0U);
  EXPECT_EQ(store_->thin(), 0U);
  EXPECT_FALSE(store_->take(1, any)) << "nothing can be kept there";
  store_->give_back(homes);
  EXPECT_EQ(store_->size(chunk), 0U) << "and when nobody holds it, it is gone";
  EXPECT_TRUE(given_back_.empty());
}

TEST_F(ChunkStoreTest, seal_nothingIsTakenAndThePlacesStay) {
  const ChunkNo chunk = add(0);
  const FrameRun homes = take(10);
  (void)store_->lose(kA);
  store_->seal(chunk);
  EXPECT_FALSE(store_->take(1, any));
  store_->give_back(homes);
  EXPECT_TRUE(given_back_.empty()) << "somebody is copying it";
  store_->unseal(chunk);
  EXPECT_EQ(given_back_, (std::vector{FrameRun{kB, FrameNo{1000}, kChunkFrames}}));
}

TEST_F(ChunkStoreTest, addPlace_inPlaceOfOneThatWasLost) {
  const ChunkNo chunk = add(0);
  (void)take(10);
  (void)store_->lose(kA);
  store_->seal(chunk);
  store_->add_place(chunk, 0, {kC, FrameNo{500}, kChunkFrames}, 7);
  store_->unseal(chunk);
  EXPECT_EQ(store_->places(chunk).count, 2U);
  EXPECT_EQ(store_->since(chunk), 7U);
  EXPECT_EQ(store_->thin(), 0U);
  EXPECT_EQ(take(64).count, 54U) << "its free homes can be had again";
}

TEST_F(ChunkStoreTest, file_canBeReadAndNotWritten) {
  (void)add(77);
  const Fd file = store_->file();
  EXPECT_EQ(mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0), MAP_FAILED);
  void* const map = mmap(nullptr, kPageSize, PROT_READ, MAP_SHARED, file.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  const auto& entry = *static_cast<const ChunkEntry*>(map);
  EXPECT_EQ(ChunkEntry::decode(entry.places[0].load(), 3), (Location{kA, FrameNo{80}}));
  EXPECT_EQ(entry.places[2].load(), 0U);
  munmap(map, kPageSize);
}

// --- coded ---

class CodedChunkStoreTest : public ::testing::Test {
 protected:
  static bool any(ChunkNo) { return true; }
  ChunkNo add(std::uint32_t columns, std::size_t places = 3) {
    std::vector<FrameRun> runs;
    for (std::uint16_t i = 0; i < places; ++i) {
      runs.push_back({NodeId{static_cast<std::uint16_t>(i + 1)}, FrameNo{added_}, columns});
    }
    added_ += columns;
    return store_->add(runs).value();
  }
  FrameRun take(std::uint32_t want) { return store_->take(want, any).value(); }
  void give_back(FrameNo first, std::uint32_t count = 1) { store_->give_back({kHome, first, count}); }

  std::uint32_t added_ = 0;
  std::vector<FrameRun> given_back_;
  std::unique_ptr<ChunkStore> store_ = *ChunkStore::make(
      3, [this](const FrameRun& run) { given_back_.push_back(run); }, Code{2, 1});
};

TEST_F(CodedChunkStoreTest, take_aColumnAgainOnlyWhenAllOfItIsFree) {
  (void)add(4);
  const FrameRun homes = take(64);
  EXPECT_EQ(homes.count, 8U);
  give_back(homes.first + 2);
  give_back(homes.first + 5);
  EXPECT_EQ(store_->dead(), 2U);
  EXPECT_FALSE(store_->take(2, any)) << "what is left of the columns needs what was given back";
  give_back(homes.first + 4);
  EXPECT_EQ(store_->dead(), 1U);
  EXPECT_EQ(take(64), (FrameRun{kHome, homes.first + 4, 2}));
}

TEST_F(CodedChunkStoreTest, giveBack_theLastHomeGivesAllRowsBack) {
  (void)add(4);
  const FrameRun homes = take(8);
  give_back(homes.first, 7);
  EXPECT_TRUE(given_back_.empty());
  give_back(homes.first + 7);
  EXPECT_EQ(given_back_,
            (std::vector{FrameRun{kA, FrameNo{0}, 4}, FrameRun{kB, FrameNo{0}, 4}, FrameRun{kC, FrameNo{0}, 4}}));
  EXPECT_EQ(store_->used() + store_->free() + store_->dead(), 0U);
}

TEST_F(CodedChunkStoreTest, lose_asManyRowsAsThereIsParityAndOneMore) {
  const ChunkNo chunk = add(4);
  const FrameRun homes = take(4);
  EXPECT_EQ(store_->lose(kB).fewer_places, std::vector{chunk});
  EXPECT_EQ(store_->find_row(chunk, std::nullopt), 1U);
  EXPECT_FALSE(store_->writable(chunk)) << "a row of data is missing";
  EXPECT_EQ(store_->lose(kA).gone, 4U);
  EXPECT_TRUE(store_->lost(chunk));
  EXPECT_EQ(store_->places(chunk).count, 1U) << "what is there can be read, and is given back in the end";
  store_->give_back(homes);
  EXPECT_EQ(given_back_, (std::vector{FrameRun{kC, FrameNo{0}, 4}}));
}

TEST_F(CodedChunkStoreTest, writable_withoutParity) {
  const ChunkNo chunk = add(4, 2);
  (void)take(2);
  EXPECT_TRUE(store_->writable(chunk));
  EXPECT_EQ(store_->thin(), 8U);
  store_->seal(chunk);
  store_->add_place(chunk, store_->find_row(chunk, std::nullopt), {kC, FrameNo{9}, 4}, 1);
  store_->unseal(chunk);
  EXPECT_EQ(store_->thin(), 0U);
  EXPECT_EQ(store_->row(chunk, 2), (Location{kC, FrameNo{9}}));
}

// Homes are taken and given back at random: none is handed out twice, and nothing is left in the end.
TEST_F(ChunkStoreTest, random_agreesWithASet) {
  std::mt19937_64 random(5);
  std::set<std::uint32_t> used;
  std::uint32_t added = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto run =
        random() % 2 == 0 ? store_->take(static_cast<std::uint32_t>(random() % 70 + 1), any) : std::nullopt;
    if (run) {
      for (std::uint32_t i = 0; i < run->count; ++i) ASSERT_TRUE(used.insert(run->at(i).frame.value).second);
    } else if (used.size() < 2000 && random() % 8 == 0) {
      (void)add(64 * added++, static_cast<std::uint32_t>(random() % 64 + 1));
    } else if (!used.empty()) {
      auto at = used.lower_bound(static_cast<std::uint32_t>(random() % (*used.rbegin() + 1)));
      store_->give_back({kHome, FrameNo{*at}, 1});
      used.erase(at);
    }
    ASSERT_EQ(store_->used(), used.size());
  }
  for (const std::uint32_t home : used) store_->give_back({kHome, FrameNo{home}, 1});
  while (const auto run = store_->take(64, any)) store_->give_back(*run);  // chunks that were never used
  EXPECT_EQ(store_->used() + store_->free(), 0U);
  EXPECT_EQ(given_back_.size(), 2 * added);
}

// --- the disk ---

class ChunkStoreDiskTest : public ::testing::Test {
 protected:
  static bool any(ChunkNo) { return true; }
  static constexpr FrameRun kOnA{kA, FrameNo{0}, kChunkFrames};
  static constexpr FrameRun kPart{keeper_wire::kDisk, FrameNo{kChunkFrames}, kChunkFrames};
  ChunkNo add(const FrameRun& place) { return store_->add({&place, 1}).value(); }

  std::vector<FrameRun> given_back_;
  std::unique_ptr<ChunkStore> store_ =
      *ChunkStore::make(1, [this](const FrameRun& run) { given_back_.push_back(run); });
};

TEST_F(ChunkStoreDiskTest, take_theDiskIsForWhoeverAsksForIt) {
  const ChunkNo chunk = add(kPart);
  EXPECT_FALSE(store_->take(1, any));
  EXPECT_EQ(store_->most_free(), 0U);
  EXPECT_EQ(store_->take_on_disk(10)->first, first_home(chunk));
  EXPECT_EQ(store_->used_on_disk(), 10U);
  EXPECT_EQ(store_->thin(), 0U);
  store_->give_back({kHome, first_home(chunk), 10});
  EXPECT_EQ(given_back_, std::vector{kPart});
}

TEST_F(ChunkStoreDiskTest, addBackup_isNoPlaceAndGoesWithTheChunk) {
  const ChunkNo chunk = add(kOnA);
  const auto homes = store_->take(3, any);
  EXPECT_EQ(store_->used_homes(chunk), 0b111U);
  EXPECT_FALSE(store_->backup(chunk));
  store_->add_backup(chunk, kPart);
  EXPECT_EQ(store_->backup(chunk), kPart);
  EXPECT_EQ(store_->places(chunk).count, 1U);
  EXPECT_TRUE(store_->has_place(chunk, kOnA.at(0)));
  store_->give_back(*homes);
  EXPECT_EQ(given_back_, (std::vector{kPart, kOnA}));
}

TEST_F(ChunkStoreDiskTest, revive_whatWasLostIsOnTheDisk) {
  const ChunkNo chunk = add(kOnA);
  ASSERT_TRUE(store_->take(3, any));
  store_->add_backup(chunk, kPart);
  EXPECT_EQ(store_->lose(kA).backed_up, std::vector{chunk});
  EXPECT_TRUE(store_->lost(chunk));
  EXPECT_EQ(store_->places(chunk).count, 0U);
  EXPECT_FALSE(store_->take_on_disk(1));
  store_->revive(chunk);
  EXPECT_FALSE(store_->lost(chunk));
  EXPECT_EQ(store_->places(chunk).at[0], kPart.at(0));
  EXPECT_FALSE(store_->has_place(chunk, kOnA.at(0)));
  EXPECT_EQ(store_->take_on_disk(1)->first, first_home(chunk) + 3);
  store_->give_back({kHome, first_home(chunk), 4});
  EXPECT_EQ(given_back_, std::vector{kPart});
  EXPECT_EQ(store_->used() + store_->free(), 0U);
}

TEST_F(ChunkStoreDiskTest, lose_aBackupThatIsNotNeededGoesWithTheChunk) {
  const ChunkNo chunk = add(kOnA);
  const auto homes = store_->take(3, any);
  store_->add_backup(chunk, kPart);
  store_->lose(kA);
  store_->give_back(*homes);
  EXPECT_EQ(given_back_, std::vector{kPart});
}

TEST_F(ChunkStoreDiskTest, addPlace_theDiskBecomesTheBackup) {
  const ChunkNo chunk = add(kPart);
  ASSERT_TRUE(store_->take_on_disk(3));
  store_->seal(chunk);
  store_->add_place(chunk, 0, kOnA, 1);
  store_->unseal(chunk);
  EXPECT_EQ(store_->backup(chunk), kPart);
  EXPECT_EQ(store_->places(chunk).at[0], kOnA.at(0));
  EXPECT_EQ(store_->used_on_disk(), 0U);
  EXPECT_EQ(store_->take(1, any)->first, first_home(chunk) + 3);
  store_->give_back({kHome, first_home(chunk), 4});
  EXPECT_EQ(given_back_, (std::vector{kPart, kOnA}));
  EXPECT_EQ(store_->used() + store_->free(), 0U);
}

TEST_F(ChunkStoreDiskTest, dropPlace_theDiskInPlaceOfANode) {
  std::vector<FrameRun> given_back;
  const auto store = *ChunkStore::make(2, [&](const FrameRun& run) { given_back.push_back(run); });
  const FrameRun on_b{kB, FrameNo{0}, kChunkFrames};
  const ChunkNo chunk = *store->add(std::vector{kOnA, on_b});
  const auto homes = store->take(3, any);
  store->seal(chunk);
  store->add_backup(chunk, kPart);
  EXPECT_TRUE(store->drop_place(chunk, kOnA));
  EXPECT_FALSE(store->drop_place(chunk, kOnA));
  store->unseal(chunk);
  EXPECT_EQ(store->places(chunk).count, 1U);
  EXPECT_EQ(store->thin(), kChunkFrames);
  // And a node again in place of the disk.
  store->seal(chunk);
  store->add_place(chunk, 0, kOnA, 1);
  EXPECT_EQ(store->drop_backup(chunk), kPart);
  store->unseal(chunk);
  EXPECT_EQ(store->thin(), 0U);
  EXPECT_FALSE(store->backup(chunk));
  store->give_back(*homes);
  EXPECT_EQ(given_back, (std::vector{kOnA, on_b}));
}

TEST_F(ChunkStoreDiskTest, revive_itWasThinAndIsNoMore) {
  const auto store = *ChunkStore::make(2, [](const FrameRun&) {});
  const ChunkNo chunk = *store->add(std::vector{kOnA});
  ASSERT_TRUE(store->take(3, any));
  EXPECT_EQ(store->thin(), kChunkFrames);
  store->seal(chunk);
  store->add_backup(chunk, kPart);
  store->revive(chunk);
  store->unseal(chunk);
  EXPECT_EQ(store->thin(), 0U);
  EXPECT_EQ(store->used_on_disk(), 3U);
}

}  // namespace
}  // namespace comex

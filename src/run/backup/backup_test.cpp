#include "run/backup/backup.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "base/aligned_bytes.h"
#include "cli/test_folder.h"

namespace comex {
namespace {

using FrameRun = Run;

// Frames that have their number in every byte.
class NumberedFrames final : public Frames {
 public:
  std::optional<FrameRun> take(std::uint32_t) noexcept override { return std::nullopt; }
  void put_back(const FrameRun&) noexcept override {}
  void give_back(const FrameRun&) noexcept override {}
  [[nodiscard]] std::uint32_t at_hand() const noexcept override { return 0; }
  void submit(NodeId, Transfer& transfer) noexcept override {
    transfer.begin();
    for (const Segment& segment : transfer.segments) {
      for (std::uint32_t i = 0; i < segment.count; ++i) {
        std::memset(segment.local + i * kPageSize, static_cast<int>(segment.first.value + i), kPageSize);
      }
    }
    transfer.finish(Errc::ok);
  }
  void poll(NodeId) noexcept override {}
  Errc wait(NodeId, Transfer& transfer) noexcept override { return transfer.result(); }
  Errc wait_until_decided(NodeId, const Deadline&) noexcept override { return Errc::ok; }
  Errc wait_for_frames(std::uint32_t, const Deadline&) noexcept override { return Errc::no_memory; }
};

class BackupTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kParts = 300;

  Expected<std::unique_ptr<Backup>> open(std::uint64_t parts = kParts) {
    return Backup::open(BackupConfig{folder_.path("."), parts * kBatchBytes}, frames_, wake_.get());
  }
  // As the keeper's loop does.
  static std::optional<FrameRun> take_in_time(Backup& backup) {
    for (;;) {
      const auto part = backup.take();
      if (part || !backup.coming()) return part;
      std::this_thread::sleep_for(Millis(1));
      backup.look([](ChunkNo, Location) { return true; });
    }
  }

  TestFolder folder_;
  NumberedFrames frames_;
  Fd wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

TEST_F(BackupTest, make_leavesNothingInTheFolder) {
  const auto file = BackupFile::make(folder_.path("."));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path(".")));
}

TEST_F(BackupTest, make_saysWhatIsWrongWithTheFolder) {
  const auto file = BackupFile::make(folder_.path("nowhere"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Errc::invalid);
  EXPECT_NE(file.error().message.find("nowhere: No such file or directory"), std::string::npos) << file.error().message;
}

TEST_F(BackupTest, take_partsOfTheirOwnUpToTheLimit) {
  auto backup = open();
  ASSERT_TRUE(backup);
  std::set<std::uint32_t> parts;
  while (const auto part = take_in_time(**backup)) {
    EXPECT_EQ(part->count, kChunkFrames);
    EXPECT_TRUE(parts.insert(part->first.value / kChunkFrames).second);
  }
  EXPECT_EQ(parts.size(), kParts);
  EXPECT_EQ(*parts.rbegin(), kParts - 1);
  (*backup)->give_back(FrameRun{NodeId{}, FrameNo{7 * kChunkFrames}, kChunkFrames});
  EXPECT_EQ((*backup)->take()->first, FrameNo{7 * kChunkFrames});
  EXPECT_FALSE((*backup)->take());
}

TEST_F(BackupTest, take_nothingAfterTheDiskFailed) {
  auto backup = open();
  ASSERT_TRUE(backup);
  ASSERT_TRUE((*backup)->take());
  (*backup)->fail("it smokes");
  (*backup)->fail("it burns");
  EXPECT_FALSE(take_in_time(**backup));
  EXPECT_EQ((*backup)->status().trouble, "it smokes");
}

class BackupCopyTest : public BackupTest {
 protected:
  static constexpr ChunkNo kChunk{3};
  static constexpr FrameRun kFrom{NodeId{1}, FrameNo{100}, kChunkFrames};

  void SetUp() override {
    backup_ = *open();
    part_ = *backup_->take();
    map_ = static_cast<BackupEntry*>(::mmap(nullptr, kBackupMapBytes, PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_NORESERVE, backup_->map_file().get(), 0));
  }
  void TearDown() override { ::munmap(map_, kBackupMapBytes); }
  // As a process does.
  void write(Slots pages) const { map_[kChunk.value].written.fetch_or(pages); }
  void copy() const { backup_->copy({kChunk, kFrom, part_, backup_->written(kChunk)}); }
  void end_copy(bool is_place = true) const {
    while (backup_->is_copying(kChunk)) {
      std::this_thread::sleep_for(Millis(1));
      backup_->look([&](ChunkNo, Location first) { return is_place && first == kFrom.at(0); });
    }
  }
  [[nodiscard]] bool is_there(std::uint32_t page) const {
    const AlignedBytes bytes(kPageSize);
    const Segment segment{part_.first + page, 1, bytes.data()};
    return backup_->file().move(Direction::read, segment) == Errc::ok &&
           bytes.data()[17] == static_cast<std::byte>(kFrom.first.value + page);
  }

  std::unique_ptr<Backup> backup_;
  FrameRun part_;
  BackupEntry* map_ = nullptr;
};

TEST_F(BackupCopyTest, copy_whatWasWrittenIsThere) {
  constexpr Slots kPages = 0b1011'0000'0001;
  write(kPages);
  backup_->count_behind(kChunk.value + 1);
  EXPECT_EQ(backup_->status().behind, 4U);
  copy();
  EXPECT_EQ(backup_->on_disk(kChunk), 0U) << "not before it is";
  end_copy();
  EXPECT_EQ(backup_->on_disk(kChunk), kPages);
  EXPECT_EQ(backup_->written(kChunk), 0U);
  for (const std::uint32_t page : {0U, 8U, 9U, 11U}) EXPECT_TRUE(is_there(page)) << page;
  EXPECT_FALSE(is_there(10));
  EXPECT_EQ(backup_->status().copied, 4U);
}

// What was copied may be the old page, the new one or some of both.
TEST_F(BackupCopyTest, copy_aHomeThatIsGivenBackMeanwhileIsNotThere) {
  write(0b111);
  copy();
  backup_->forget({kHome, first_home(kChunk) + 1, 1});
  write(0b010);  // the next holder is fast
  end_copy();
  EXPECT_EQ(backup_->on_disk(kChunk), 0b101U);
  EXPECT_EQ(backup_->written(kChunk), 0b010U);
  copy();
  end_copy();
  EXPECT_EQ(backup_->on_disk(kChunk), 0b111U);
}

TEST_F(BackupCopyTest, forget_whatIsGivenBackIsNotThere) {
  write(0b11);
  copy();
  end_copy();
  backup_->forget({kHome, first_home(kChunk), 1});
  EXPECT_EQ(backup_->on_disk(kChunk), 0b10U);
}

TEST_F(BackupCopyTest, copy_fromAPlaceThatChangedHandsCountsForNothing) {
  write(1);
  copy();
  end_copy(false);
  EXPECT_EQ(backup_->on_disk(kChunk), 0U);
  EXPECT_EQ(backup_->written(kChunk), 1U) << "to be copied again";
}

TEST_F(BackupCopyTest, disown_nothingIsThereAndAllOfItWouldBeCopiedAgain) {
  write(0b11);
  copy();
  end_copy();
  write(0b100);
  copy();
  backup_->disown(kChunk);
  EXPECT_EQ(backup_->on_disk(kChunk), 0U);
  end_copy();
  EXPECT_EQ(backup_->on_disk(kChunk), 0U) << "what was being copied was for a part that it has no more";
  EXPECT_EQ(backup_->written(kChunk), 0b111U);
}

// Or the copy would land in the middle of another chunk's pages.
TEST_F(BackupCopyTest, giveBack_aPartThatIsBeingWrittenIsNobodysYet) {
  write(1);
  copy();
  backup_->forget({kHome, first_home(kChunk), kChunkFrames});
  backup_->give_back(part_);
  EXPECT_NE(backup_->take()->first, part_.first);
  end_copy();
  EXPECT_EQ(backup_->take()->first, part_.first);
}

TEST_F(BackupTest, open_aLimitThatIsTooSmall) {
  EXPECT_FALSE(open(0));
}

}  // namespace
}  // namespace comex

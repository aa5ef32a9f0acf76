#include "pager/read_buffer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "pager/fake_program_test.h"

namespace comex {
namespace {

using testing_support::FakeFrames;
using testing_support::FakeMemory;

constexpr NodeId kNode{0};
constexpr std::uint32_t kGroup = ReadBuffer::kGroupPages;

class ReadBufferTest : public ::testing::Test {
 protected:
  ReadBufferTest() {
    // Frame i has bytes of i.
    EXPECT_EQ(frames_.take(kFrames)->count, kFrames);
    for (std::uint32_t i = 0; i < kFrames; ++i) {
      std::vector<std::byte> page = page_of(i);
      const Segment segment{FrameNo{i}, 1, page.data()};
      EXPECT_EQ(frames_.write(kNode, std::span(&segment, 1)), Errc::ok);
    }
  }
  static std::vector<std::byte> page_of(std::uint32_t value) {
    return std::vector<std::byte>(kPageSize, static_cast<std::byte>(value));
  }
  // Page i is in frame i.
  static bool begin(ReadBuffer& buffer, std::uint32_t first, std::uint32_t count) {
    auto coming = buffer.prepare();
    if (!coming) return false;
    for (std::uint32_t i = first; i < first + count; ++i) coming->add(PageNo{i}, {kNode, FrameNo{i}});
    coming->begin();
    return true;
  }
  // What it has of the page; nothing, if it is not there.
  static std::vector<std::byte> take(ReadBuffer& buffer, std::uint32_t page) {
    std::vector<std::byte> bytes(kPageSize);
    if (!buffer.take(PageNo{page}, bytes.data())) bytes.clear();
    return bytes;
  }

  static constexpr std::uint32_t kFrames = 1024;
  FakeMemory memory_{1};
  FakeFrames frames_{1, kFrames};
};

TEST_F(ReadBufferTest, take_whatCameOnce) {
  ReadBuffer buffer(memory_, frames_, 2 * kGroup);
  ASSERT_TRUE(begin(buffer, 7, 3));
  EXPECT_TRUE(buffer.has(PageNo{8}));
  EXPECT_EQ(take(buffer, 8), page_of(8));
  EXPECT_FALSE(buffer.has(PageNo{8}));
  EXPECT_TRUE(take(buffer, 8).empty());
  EXPECT_EQ(take(buffer, 7), page_of(7));
  EXPECT_TRUE(take(buffer, 10).empty());
}

TEST_F(ReadBufferTest, begin_isOneReadAndDoesNotWait) {
  ReadBuffer buffer(memory_, frames_, 4 * kGroup);
  frames_.hold_reads(true);
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(begin(buffer, 100 * (i + 1), kGroup));
  EXPECT_EQ(frames_.reads(), 3);
  EXPECT_EQ(frames_.under_way(), 3U);
  EXPECT_EQ(take(buffer, 205), page_of(205)) << "waits for what is on its way";
  EXPECT_EQ(frames_.reads(), 3) << "and reads nothing again";
}

TEST_F(ReadBufferTest, prepare_noMoreThanSomeUnderWay) {
  ReadBuffer buffer(memory_, frames_, 16 * kGroup);
  frames_.hold_reads(true);
  std::uint32_t begun = 0;
  while (begun < 16 && begin(buffer, 1 + begun * kGroup, kGroup)) ++begun;
  EXPECT_EQ(begun, ReadBuffer::kMostUnderWay);
  frames_.hold_reads(false);
  buffer.progress();
  EXPECT_TRUE(begin(buffer, 1000, 2)) << "they have come";
}

// Who asks page after page must not wait for another thread to look.
TEST_F(ReadBufferTest, prepare_seesByItselfWhatHasCome) {
  ReadBuffer buffer(memory_, frames_, 30 * kGroup);
  for (std::uint32_t i = 0; i < 30; ++i) EXPECT_TRUE(begin(buffer, 1 + i * kGroup, 4)) << i;
}

TEST_F(ReadBufferTest, prepare_theFirstToComeIsTheFirstToGo) {
  ReadBuffer buffer(memory_, frames_, 2 * kGroup);
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(begin(buffer, 100 * (i + 1), 4));
  EXPECT_FALSE(buffer.has(PageNo{100}));
  EXPECT_TRUE(buffer.has(PageNo{200}));
  EXPECT_TRUE(buffer.has(PageNo{300}));
  EXPECT_TRUE(take(buffer, 103).empty());
}

TEST_F(ReadBufferTest, prepare_notWhatIsStillUnderWay) {
  ReadBuffer buffer(memory_, frames_, 2 * kGroup);
  frames_.hold_reads(true);
  ASSERT_TRUE(begin(buffer, 100, 4));
  ASSERT_TRUE(begin(buffer, 200, 4));
  EXPECT_FALSE(begin(buffer, 300, 4)) << "its memory is being written to";
  EXPECT_EQ(take(buffer, 100), page_of(100));
}

TEST_F(ReadBufferTest, prepare_withNothingInItIsGivenUp) {
  ReadBuffer buffer(memory_, frames_, kGroup);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(begin(buffer, 100, 0));
  EXPECT_EQ(frames_.reads(), 0);
}

// Its frame may be given back as soon as this returns.
TEST_F(ReadBufferTest, drop_waitsForWhatIsUnderWay) {
  ReadBuffer buffer(memory_, frames_, kGroup);
  frames_.hold_reads(true);
  ASSERT_TRUE(begin(buffer, 100, 4));
  buffer.drop(PageNo{101});
  EXPECT_EQ(frames_.under_way(), 0U);
  EXPECT_FALSE(buffer.has(PageNo{101}));
  EXPECT_TRUE(buffer.has(PageNo{102}));
  buffer.drop(PageNo{500});
}

TEST_F(ReadBufferTest, take_aReadThatFailedIsNothing) {
  ReadBuffer buffer(memory_, frames_, kGroup);
  frames_.fail_reads(Errc::disconnected);
  ASSERT_TRUE(begin(buffer, 100, 4));
  EXPECT_TRUE(take(buffer, 100).empty());
  EXPECT_FALSE(buffer.has(PageNo{100}));
}

TEST_F(ReadBufferTest, settle_nothingIsUnderWay) {
  ReadBuffer buffer(memory_, frames_, 4 * kGroup);
  frames_.hold_reads(true);
  ASSERT_TRUE(begin(buffer, 100, 4));
  ASSERT_TRUE(begin(buffer, 200, 4));
  buffer.settle();
  EXPECT_EQ(frames_.under_way(), 0U);
  EXPECT_EQ(take(buffer, 202), page_of(202)) << "what came is kept";
}

TEST_F(ReadBufferTest, none_holdsNothing) {
  ReadBuffer buffer(memory_, frames_, 0);
  EXPECT_FALSE(begin(buffer, 100, 4));
  EXPECT_FALSE(buffer.has(PageNo{100}));
  EXPECT_TRUE(take(buffer, 100).empty());
  buffer.settle();
  buffer.progress();
}

// Each thread has pages of its own, as it would have their entries locked.
TEST_F(ReadBufferTest, threads_takeWhatTheyAskedFor) {
  ReadBuffer buffer(memory_, frames_, 4 * kGroup);
  std::atomic<int> wrong{0};
  std::atomic<int> taken{0};
  const auto work = [&](std::uint32_t first) {
    for (std::uint32_t turn = 0; turn < 2000; ++turn) {
      const std::uint32_t from = first + (turn % 4) * 8;
      auto coming = buffer.prepare();
      for (std::uint32_t i = from; coming && i < from + 8; ++i) {
        if (!buffer.has(PageNo{i})) coming->add(PageNo{i}, {kNode, FrameNo{i}});
      }
      if (coming) coming->begin();
      for (std::uint32_t i = from; i < from + 8; i += 2) {
        const auto bytes = take(buffer, i);
        if (bytes.empty()) continue;
        ++taken;
        wrong += bytes != page_of(i);
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 3; ++i) threads.emplace_back(work, 1 + 100 * i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace comex

#include "pager/read_buffer.h"

#include <gtest/gtest.h>

#include <vector>

#include "pager/fake_program_test.h"

namespace comex {
namespace {

using testing_support::FakeMemory;

std::vector<std::byte> page_of(int value) {
  return std::vector<std::byte>(kPageSize, static_cast<std::byte>(value));
}

class ReadBufferTest : public ::testing::Test {
 protected:
  // What it has of the page; nothing, if it is not there.
  std::vector<std::byte> take(ReadBuffer& buffer, PageNo page) {
    std::vector<std::byte> bytes(kPageSize);
    if (!buffer.take(page, bytes.data())) bytes.clear();
    return bytes;
  }
  FakeMemory memory_{1};
};

TEST_F(ReadBufferTest, take_whatWasPutOnce) {
  ReadBuffer buffer(memory_, 64);
  buffer.put(PageNo{7}, page_of(7).data());
  EXPECT_TRUE(buffer.has(PageNo{7}));
  EXPECT_EQ(take(buffer, PageNo{7}), page_of(7));
  EXPECT_FALSE(buffer.has(PageNo{7}));
  EXPECT_TRUE(take(buffer, PageNo{7}).empty());
}

TEST_F(ReadBufferTest, put_againReplaces) {
  ReadBuffer buffer(memory_, 64);
  buffer.put(PageNo{7}, page_of(1).data());
  buffer.put(PageNo{7}, page_of(2).data());
  EXPECT_EQ(take(buffer, PageNo{7}), page_of(2));
  EXPECT_TRUE(take(buffer, PageNo{7}).empty()) << "no second copy";
}

TEST_F(ReadBufferTest, put_theFirstToComeIsTheFirstToGo) {
  ReadBuffer buffer(memory_, 4);  // one set
  for (int page = 1; page <= 6; ++page) buffer.put(PageNo{static_cast<std::uint64_t>(page)}, page_of(page).data());
  for (int page = 1; page <= 6; ++page) {
    EXPECT_EQ(buffer.has(PageNo{static_cast<std::uint64_t>(page)}), page > 2) << page;
  }
}

TEST_F(ReadBufferTest, drop_itIsGone) {
  ReadBuffer buffer(memory_, 64);
  buffer.put(PageNo{7}, page_of(7).data());
  buffer.drop(PageNo{7});
  buffer.drop(PageNo{8});
  EXPECT_FALSE(buffer.has(PageNo{7}));
}

TEST_F(ReadBufferTest, none_holdsNothing) {
  ReadBuffer buffer(memory_, 0);
  buffer.put(PageNo{7}, page_of(7).data());
  EXPECT_FALSE(buffer.has(PageNo{7}));
  EXPECT_TRUE(take(buffer, PageNo{7}).empty());
}

}  // namespace
}  // namespace comex

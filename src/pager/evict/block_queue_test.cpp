#include "pager/evict/block_queue.h"

#include <gtest/gtest.h>

#include "pager/evict/own_memory_test.h"

namespace comex {
namespace {

using testing_support::OnlyOwn;

TEST(BlockQueueTest, pop_theOrderIsKeptAsItGrows) {
  OnlyOwn memory;
  BlockQueue queue(memory, 1 << 16);
  std::uint32_t in = 0;
  std::uint32_t out = 0;
  for (const std::uint32_t wanted : {700U, 100U, 3000U, 10U, 30000U, 0U}) {
    for (std::uint32_t there = in - out; there < wanted; ++there) queue.push(BlockNo{++in});
    for (std::uint32_t there = in - out; there > wanted; --there) ASSERT_EQ(queue.pop(), BlockNo{++out});
  }
  EXPECT_EQ(queue.pop(), std::nullopt);
  EXPECT_EQ(out, in);
}

TEST(BlockQueueTest, push_usesNoMoreMemoryThanForWhatIsThere) {
  OnlyOwn memory;
  BlockQueue queue(memory, 1 << 16);
  for (std::uint32_t i = 1; i <= 200'000; ++i) {
    queue.push(BlockNo{i});
    if (i > 1000) (void)queue.pop();
  }
  EXPECT_LE(memory.touched(), kPageSize);
}

}  // namespace
}  // namespace comex

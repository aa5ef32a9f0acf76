#include "run/runtime/thread_state.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>

namespace comex::runtime {
namespace {

class ThreadsTest : public ::testing::Test {
 protected:
  std::unique_ptr<void, decltype(&std::free)> memory_{std::calloc(1, Threads::bytes()), &std::free};
  Threads threads_{static_cast<std::byte*>(memory_.get())};
};

TEST_F(ThreadsTest, enter_untilThereAreTooMany) {
  ThreadState* last = nullptr;
  for (std::uint32_t i = 0; i < Threads::kMost; ++i) {
    last = threads_.enter(1 + i);
    ASSERT_NE(last, nullptr);
  }
  EXPECT_EQ(threads_.enter(1), nullptr);
  threads_.leave(*last);
  EXPECT_EQ(threads_.enter(1), last);
}

TEST_F(ThreadsTest, leave_inTheMiddleOfACallLetsEverythingGo) {
  ThreadState& state = *threads_.enter(1);
  alignas(PinFrame) std::byte place[sizeof(PinFrame)];
  auto* const never_ended = new (place) PinFrame(threads_, state);  // the thread has become another program
  never_ended->add_everything();
  EXPECT_EQ(threads_.pinned(BlockNo{5}), ~std::uint64_t{0});
  threads_.leave(state);
  EXPECT_EQ(threads_.pinned(BlockNo{5}), 0U);
}

TEST(Threads, standing_on_findsTheOwnerOfAStack) {
  const std::unique_ptr<void, decltype(&std::free)> memory{std::calloc(1, Threads::bytes()), &std::free};
  auto* const stacks = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);  // never touched
  Threads threads(static_cast<std::byte*>(memory.get()), stacks);
  ThreadState* const first = threads.enter(1);
  ThreadState* const second = threads.enter(2);
  EXPECT_EQ(threads.standing_on(first->stack_top - 1), first);
  EXPECT_EQ(threads.standing_on(second->stack_top - 8), second);
  EXPECT_EQ(threads.standing_on(stacks - 1), nullptr);
  EXPECT_EQ(threads.standing_on(stacks + Threads::stack_bytes()), nullptr);
}

TEST_F(ThreadsTest, pinned_pagesOfABlock) {
  ThreadState& state = *threads_.enter(1);
  const PageNo first{1000 * kBlockPages};
  const BlockNo block = BlockNo::of(first);
  {
    PinFrame frame(threads_, state);
    frame.add(PageRun{first + 2, 3});
    frame.add(PageRun{first + 63, 10});
    EXPECT_EQ(threads_.pinned(block), 0b11100U | std::uint64_t{1} << 63);
    EXPECT_EQ(threads_.pinned(BlockNo{block.value + 1}), 0b111111111U);
    EXPECT_EQ(threads_.pinned(BlockNo{block.value + 2}), 0U);
    {
      PinFrame inner(threads_, state);
      inner.add(PageRun{PageNo{first.value - 1}, 66});
      EXPECT_EQ(threads_.pinned(block), ~std::uint64_t{0});
    }
    EXPECT_EQ(threads_.pinned(block), 0b11100U | std::uint64_t{1} << 63) << "the outer ones are still there";
  }
  EXPECT_EQ(threads_.pinned(block), 0U);
}

TEST_F(ThreadsTest, pinned_moreThanThereIsRoomForHoldsEverything) {
  ThreadState& state = *threads_.enter(1);
  {
    PinFrame frame(threads_, state);
    for (std::uint64_t i = 0; i <= ThreadState::kPins; ++i) frame.add(PageRun{PageNo{i * 1000}, 1});
    EXPECT_EQ(threads_.pinned(BlockNo{12345}), ~std::uint64_t{0});
  }
  EXPECT_EQ(threads_.pinned(BlockNo{12345}), 0U);
}

TEST_F(ThreadsTest, leave_takesPinsAlong) {
  ThreadState& state = *threads_.enter(1);
  state.pins[0].first = 5;
  state.pins[0].count = 1;
  EXPECT_NE(threads_.pinned(BlockNo{0}), 0U);
  threads_.leave(state);
  EXPECT_EQ(threads_.pinned(BlockNo{0}), 0U);
}

}  // namespace
}  // namespace comex::runtime

#include "pager/victims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace comex {
namespace {

// Gives out one piece of memory, which can be looked at.
class OnePiece final : public Memory {
 public:
  Errc place(PageRun, const std::byte*, bool) noexcept override { return Errc::unsupported; }
  Errc place_zeros(PageRun) noexcept override { return Errc::unsupported; }
  Errc guard(PageRun) noexcept override { return Errc::unsupported; }
  Errc unguard(PageRun) noexcept override { return Errc::unsupported; }
  Errc discard(std::span<const PageRun>) noexcept override { return Errc::unsupported; }
  [[nodiscard]] const std::byte* bytes(PageNo) const noexcept override { return nullptr; }
  std::byte* own(std::size_t bytes) noexcept override {
    words_.assign(bytes / sizeof words_[0], 0);
    return reinterpret_cast<std::byte*>(words_.data());
  }
  // How much of it was written to.
  [[nodiscard]] std::size_t touched() const {
    const auto last = std::find_if(words_.rbegin(), words_.rend(), [](std::uint32_t word) { return word != 0; });
    return static_cast<std::size_t>(words_.rend() - last) * sizeof words_[0];
  }

 private:
  std::vector<std::uint32_t> words_;
};

TEST(FifoTest, next_theOrderIsKeptAsItGrows) {
  OnePiece memory;
  Fifo fifo(memory, 1 << 16);
  std::uint32_t in = 0;
  std::uint32_t out = 0;
  for (const std::uint32_t wanted : {700U, 100U, 3000U, 10U, 30000U, 0U}) {
    for (std::uint32_t there = in - out; there < wanted; ++there) fifo.admit(BlockNo{++in});
    for (std::uint32_t there = in - out; there > wanted; --there) ASSERT_EQ(fifo.next(), BlockNo{++out});
  }
  EXPECT_EQ(fifo.next(), std::nullopt);
  EXPECT_EQ(out, in);
}

TEST(FifoTest, admit_usesNoMoreMemoryThanForWhatIsThere) {
  OnePiece memory;
  Fifo fifo(memory, 1 << 16);
  for (std::uint32_t i = 1; i <= 200'000; ++i) {
    fifo.admit(BlockNo{i});
    if (i > 1000) (void)fifo.next();
  }
  EXPECT_LE(memory.touched(), kPageSize);
}

}  // namespace
}  // namespace comex

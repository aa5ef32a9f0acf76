#include "run/own_descriptors.h"

#include <gtest/gtest.h>

#include <vector>

namespace comex {
namespace {

using Gaps = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

TEST(OwnDescriptors, adopt_movesOutOfTheWay) {
  OwnDescriptors ours;
  const int low = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int high = ours.adopt(low);
  EXPECT_GE(high, 512);
  EXPECT_LT(::fcntl(low, F_GETFD), 0) << "closed";
  EXPECT_TRUE(ours.has(static_cast<std::uint64_t>(high)));
  EXPECT_FALSE(ours.has(static_cast<std::uint64_t>(low)));
  ours.drop(high);
  EXPECT_FALSE(ours.has(static_cast<std::uint64_t>(high)));
  ::close(high);
}

TEST(OwnDescriptors, for_each_other_leavesOursOut) {
  OwnDescriptors ours;
  const Fd first = ours.adopt(Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  const Fd second = ours.adopt(Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  const auto a = static_cast<std::uint32_t>(std::min(first.get(), second.get()));
  const auto b = static_cast<std::uint32_t>(std::max(first.get(), second.get()));
  const auto gaps = [&](std::uint32_t from, std::uint32_t to) {
    Gaps found;
    ours.for_each_other(from, to, [&](std::uint32_t begin, std::uint32_t end) { found.emplace_back(begin, end); });
    return found;
  };
  Gaps all{{3, a - 1}};
  if (b > a + 1) all.emplace_back(a + 1, b - 1);
  all.emplace_back(b + 1, UINT32_MAX);
  EXPECT_EQ(gaps(3, UINT32_MAX), all);
  EXPECT_EQ(gaps(a, a), Gaps{});
  EXPECT_EQ(gaps(3, 9), (Gaps{{3, 9}}));
}

}  // namespace
}  // namespace comex

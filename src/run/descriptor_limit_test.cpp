#include "run/descriptor_limit.h"

#include <gtest/gtest.h>

#include <optional>

namespace comex {
namespace {

rlimit limit() {
  rlimit now{};
  prlimit(0, RLIMIT_NOFILE, nullptr, &now);
  return now;
}

TEST(RaisedDescriptorLimit, two_that_overlap_leave_it_as_it_was) {
  const rlimit before = limit();
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(before.rlim_cur, 256);
  ASSERT_EQ(prlimit(0, RLIMIT_NOFILE, &low, nullptr), 0);
  if (low.rlim_max > low.rlim_cur) {
    std::optional<RaisedDescriptorLimit> first(std::in_place);
    EXPECT_GT(limit().rlim_cur, low.rlim_cur);
    std::optional<RaisedDescriptorLimit> second(std::in_place);
    first.reset();
    EXPECT_GT(limit().rlim_cur, low.rlim_cur);
    second.reset();
    EXPECT_EQ(limit().rlim_cur, low.rlim_cur);
    EXPECT_EQ(limit().rlim_max, low.rlim_max);
  }
  prlimit(0, RLIMIT_NOFILE, &before, nullptr);
}

}  // namespace
}  // namespace comex

#include "base/own_place.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/units.h"

namespace comex {
namespace {

void* map(void* where) {
  return mmap(where, kPageSize, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// In a process of its own: it is for as long as one lives.
TEST(OwnPlace, whatIsOursLeavesNoTraceInWhatOthersGet) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer leaves no memory there";
#endif
  EXPECT_EXIT(
      {
        if (OwnPlace::take(kPageSize) != nullptr) _exit(1);
        OwnPlace::begin();
        void* const before = map(nullptr);
        munmap(before, kPageSize);
        void* const wish = OwnPlace::take(kPageSize);
        void* const next = OwnPlace::take(kPageSize);
        if (wish == nullptr || wish == next) _exit(2);
        if (map(wish) != wish || map(next) != next) _exit(3);
        _exit(map(nullptr) == before ? 0 : 4);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace comex

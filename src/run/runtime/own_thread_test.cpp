#include "run/runtime/own_thread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/clock.h"
#include "base/futex.h"

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif

namespace comex::runtime {
namespace {

std::byte* allocate(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

[[gnu::tls_model("initial-exec")]] thread_local int mine = 41;

struct Seen {
  std::atomic<std::uint32_t> done{0};
  int error = 0;
  int mine = 0;
  int thread = 0;
};

void body(void* argument) {
  auto& seen = *static_cast<Seen*>(argument);
  ++mine;
  seen.mine = mine;
  (void)!::open("/does/not/exist", O_RDONLY);
  seen.error = errno;
  seen.thread = static_cast<int>(syscall(SYS_gettid));
  seen.done.store(1);
  futex_wake_all(seen.done);
  for (;;) syscall(SYS_exit, 0);
}

TEST(OwnThreads, start_hasItsOwnErrnoAndThreadLocals) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer)
  GTEST_SKIP() << "sanitizers must know every thread";
#endif
  OwnThreads threads;
  ASSERT_EQ(threads.prepare(&allocate), Errc::ok);
  mine = 7;
  errno = 0;
  for (int i = 0; i < 20; ++i) {
    Seen seen;
    ASSERT_EQ(threads.start(&body, &seen), Errc::ok);
    const Deadline deadline(std::chrono::seconds(10));
    while (seen.done.load() == 0 && !deadline.passed()) futex_wait(seen.done, 0, Millis(100));
    ASSERT_EQ(seen.done.load(), 1U);
    EXPECT_EQ(seen.mine, 42) << "from the initial image, not from this thread";
    EXPECT_EQ(seen.error, ENOENT);
    EXPECT_NE(seen.thread, gettid());
  }
  EXPECT_EQ(mine, 7);
  EXPECT_EQ(errno, 0);
}

}  // namespace
}  // namespace comex::runtime

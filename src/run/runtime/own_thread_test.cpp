#include "run/runtime/own_thread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/clock.h"

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
  for (;;) syscall(SYS_exit, 0);
}

TEST(OwnThreads, start_hasItsOwnErrnoAndThreadLocals) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer)
  GTEST_SKIP() << "sanitizers must know every thread";
#endif
  OwnThreads threads;
  ASSERT_EQ(threads.prepare(&allocate), Errc::ok);
  mine = 7;
  for (int i = 0; i < 20; ++i) {
    Seen seen;
    errno = 0;
    ASSERT_EQ(threads.start(&body, &seen), Errc::ok);
    const Deadline deadline(std::chrono::seconds(10));
    // Not futex_wait(), which may set this thread's errno as well.
    while (seen.done.load() == 0 && !deadline.passed()) sched_yield();
    ASSERT_EQ(seen.done.load(), 1U);
    EXPECT_EQ(errno, 0);
    EXPECT_EQ(seen.mine, 42) << "from the initial image, not from this thread";
    EXPECT_EQ(seen.error, ENOENT);
    EXPECT_NE(seen.thread, gettid());
  }
  EXPECT_EQ(mine, 7);
}

}  // namespace
}  // namespace comex::runtime

#include "run/uffd_memory.h"

#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace comex {
namespace {

// Faults are caught by a handler that jumps back: a test asks whether a touch is one.
sigjmp_buf back;
void on_fault(int) {
  siglongjmp(back, 1);
}

// With all that this kernel offers, and with no more than Linux 6.1 does.
class UffdMemoryTest : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr std::uint64_t kPages = 64;

  void SetUp() override {
    ASSERT_EQ(own_.reserve(), Errc::ok);
    const Errc opened = memory_.open(Delivery::inline_signal, GetParam());
    if (opened == Errc::denied) GTEST_SKIP() << "no right to userfaultfd";
    ASSERT_EQ(opened, Errc::ok);
    area_ = mmap(nullptr, 2 * kPages * kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(area_, MAP_FAILED);
    first_ = (BlockNo::of(PageNo::of(area_) + (kPages - 1))).first();
    ASSERT_EQ(memory_.enlist(PageRun{first_, kPages}), Errc::ok);
    struct sigaction action {};
    action.sa_handler = &on_fault;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGBUS, &action, &before_);
  }
  void TearDown() override {
    if (first_.value == 0) return;
    sigaction(SIGBUS, &before_, nullptr);
    munmap(area_, 2 * kPages * kPageSize);
  }

  bool can_read(std::uint64_t page) {
    if (sigsetjmp(back, 1) != 0) return false;
    (void)*reinterpret_cast<const volatile char*>((first_ + page).address());
    return true;
  }
  bool can_write(std::uint64_t page) {
    if (sigsetjmp(back, 1) != 0) return false;
    auto* const at = reinterpret_cast<volatile char*>((first_ + page).address());
    at[1] = 'w';
    return true;
  }
  char first_byte(std::uint64_t page) { return *reinterpret_cast<const char*>((first_ + page).address()); }
  static std::vector<std::byte> pages_of(char value, std::size_t count) {
    return std::vector<std::byte>(count * kPageSize, std::byte(value));
  }
  [[nodiscard]] BlockNo block() const { return BlockNo::of(first_); }
  void place_numbers(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      ASSERT_EQ(memory_.place(run(i, 1), pages_of(static_cast<char>(i), 1).data(), false), Errc::ok);
    }
  }
  PageRun run(std::uint64_t first, std::uint64_t count) { return PageRun{first_ + first, count}; }

  OwnMemory own_;
  UffdMemory memory_{own_};
  void* area_ = nullptr;
  PageNo first_;  // the first of a block
  struct sigaction before_ {};
};

INSTANTIATE_TEST_SUITE_P(On, UffdMemoryTest, testing::Bool(),
                         [](const auto& old_kernel) { return old_kernel.param ? "AnOldKernel" : "ThisKernel"; });

TEST_P(UffdMemoryTest, place_bringsBytes) {
  EXPECT_FALSE(can_read(0));
  ASSERT_EQ(memory_.place(run(0, 3), pages_of('a', 3).data(), false), Errc::ok);
  EXPECT_TRUE(can_read(2));
  EXPECT_EQ(first_byte(2), 'a');
  EXPECT_TRUE(can_write(2));
  EXPECT_FALSE(can_read(3));
}

TEST_P(UffdMemoryTest, place_guardedFaultsOnWritesOnly) {
  ASSERT_EQ(memory_.place(run(0, 2), pages_of('a', 2).data(), true), Errc::ok);
  EXPECT_TRUE(can_read(1));
  EXPECT_FALSE(can_write(1));
  ASSERT_EQ(memory_.unguard(run(1, 1)), Errc::ok);
  EXPECT_TRUE(can_write(1));
  EXPECT_FALSE(can_write(0));
}

TEST_P(UffdMemoryTest, place_whereOneIs) {
  ASSERT_EQ(memory_.place(run(1, 1), pages_of('a', 1).data(), false), Errc::ok);
  EXPECT_EQ(memory_.place(run(0, 3), pages_of('b', 3).data(), true), Errc::busy);
  EXPECT_EQ(first_byte(1), 'a');
  EXPECT_FALSE(can_read(0)) << "all or nothing";
  EXPECT_EQ(memory_.place(run(0, 3), pages_of('b', 3).data(), false), Errc::busy);
  EXPECT_EQ(first_byte(0), 'b') << "a thread may have written to it since";
}

TEST_P(UffdMemoryTest, place_whereNoMemoryIs) {
  munmap((first_ + 10).address(), kPageSize);
  EXPECT_EQ(memory_.place(run(10, 1), pages_of('a', 1).data(), false), Errc::invalid);
}

TEST_P(UffdMemoryTest, zeros) {
  ASSERT_EQ(memory_.place_zeros(run(0, kPages)), Errc::ok);
  EXPECT_EQ(first_byte(kPages - 1), 0);
  EXPECT_TRUE(can_write(kPages - 1));
}

TEST_P(UffdMemoryTest, zeros_whereSomeAre) {
  for (const std::uint64_t page : {3, 4, 40}) {
    ASSERT_EQ(memory_.place(run(page, 1), pages_of('a', 1).data(), false), Errc::ok);
  }
  ASSERT_EQ(memory_.place_zeros(run(0, kPages)), Errc::ok);
  for (std::uint64_t page = 0; page < kPages; ++page) {
    EXPECT_EQ(first_byte(page), page == 3 || page == 4 || page == 40 ? 'a' : 0) << page;
  }
}

TEST_P(UffdMemoryTest, guard_withHoles) {
  ASSERT_EQ(memory_.place_zeros(run(0, 2)), Errc::ok);
  ASSERT_EQ(memory_.place_zeros(run(5, 1)), Errc::ok);
  ASSERT_EQ(memory_.guard(run(0, 8)), Errc::ok);
  EXPECT_FALSE(can_write(1));
  EXPECT_FALSE(can_write(5));
  EXPECT_FALSE(can_read(3)) << "a hole stays one";
  ASSERT_EQ(memory_.place(run(3, 1), pages_of('a', 1).data(), false), Errc::ok);
  EXPECT_TRUE(can_write(3)) << "and was not guarded";
}

// A program that protects parts of its memory has many. Linux 6.1 guards within one only.
TEST_P(UffdMemoryTest, guard_overSeveralMappings) {
  ASSERT_EQ(memory_.place_zeros(run(0, kPages)), Errc::ok);
  for (const std::uint64_t page : {5, 6, 30}) {
    ASSERT_EQ(mprotect((first_ + page).address(), kPageSize, page == 6 ? PROT_NONE : PROT_READ), 0);
  }
  ASSERT_EQ(memory_.guard(run(0, kPages)), Errc::ok);
  ASSERT_EQ(mprotect(first_.address(), kPages * kPageSize, PROT_READ | PROT_WRITE), 0);
  for (std::uint64_t page = 0; page < kPages; ++page) EXPECT_FALSE(can_write(page)) << page;
  ASSERT_EQ(mprotect((first_ + 30).address(), kPageSize, PROT_READ), 0);
  ASSERT_EQ(memory_.unguard(run(0, kPages)), Errc::ok);
  for (const std::uint64_t page : {0, 6, 29, 31, 63}) EXPECT_TRUE(can_write(page)) << page;
}

TEST_P(UffdMemoryTest, guard_whereNoMemoryIs) {
  ASSERT_EQ(memory_.place_zeros(run(0, kPages)), Errc::ok);
  munmap((first_ + 10).address(), kPageSize);
  EXPECT_NE(memory_.guard(run(10, 1)), Errc::ok);
}

TEST_P(UffdMemoryTest, discard_manyRuns) {
  ASSERT_EQ(memory_.place_zeros(run(0, kPages)), Errc::ok);
  std::vector<PageRun> runs;
  for (std::uint64_t page = 0; page < kPages; page += 2) runs.push_back(run(page, 1));
  ASSERT_EQ(memory_.discard(runs), Errc::ok);
  for (std::uint64_t page = 0; page < kPages; ++page) EXPECT_EQ(can_read(page), page % 2 == 1) << page;
}

TEST_P(UffdMemoryTest, discard_guardedComesBackUnguarded) {
  ASSERT_EQ(memory_.place(run(0, 1), pages_of('a', 1).data(), true), Errc::ok);
  const PageRun one = run(0, 1);
  ASSERT_EQ(memory_.discard(std::span(&one, 1)), Errc::ok);
  ASSERT_EQ(memory_.place(one, pages_of('b', 1).data(), false), Errc::ok);
  EXPECT_TRUE(can_write(0));
}

TEST_P(UffdMemoryTest, seize_outOfReachUntilReleased) {
  memory_.expect_pins();
  place_numbers(0, 3);
  place_numbers(4, 6);
  place_numbers(10, 1);
  const Seized seized = memory_.seize(block(), 0x3ff, 0x3f7, 0, 0);
  EXPECT_EQ(seized.pages, 0x3f7U);
  EXPECT_FALSE(can_write(2));
  EXPECT_TRUE(can_read(10)) << "nobody wanted it";
  for (const std::uint32_t slot : {0, 9}) EXPECT_EQ(*seized.bytes[slot], std::byte(slot));
  memory_.release(seized, 0x6);
  EXPECT_EQ(first_byte(1), 1);
  EXPECT_EQ(first_byte(2), 2);
  EXPECT_TRUE(can_write(2));
  if (!memory_.sees_pins()) return;
  EXPECT_FALSE(can_read(0)) << "it was moved, and thrown away";
  EXPECT_FALSE(can_read(9));
}

// Each run that is moved is a shootdown. Where nothing can be pinned that the caller does not know of, one guard is
// less.
TEST_P(UffdMemoryTest, seize_scatteredPagesAreMovedIfPinsAreExpected) {
  place_numbers(0, 10);
  const PageRun hole = run(4, 1);
  ASSERT_EQ(memory_.discard(std::span(&hole, 1)), Errc::ok);
  const Slots here = 0x3ef;
  Seized seized = memory_.seize(block(), 0x3ff, here, 0, 0);
  EXPECT_EQ(seized.pages, here);
  EXPECT_EQ(seized.moved, 0U);
  EXPECT_FALSE(can_write(9));
  memory_.release(seized, here);
  EXPECT_TRUE(can_write(9));
  memory_.expect_pins();
  seized = memory_.seize(block(), 0x3ff, here, 0, 0);
  EXPECT_EQ(seized.pages, here);
  EXPECT_EQ(seized.moved & here, memory_.sees_pins() ? here : 0);
  memory_.release(seized, here);
}

TEST_P(UffdMemoryTest, seize_whatIsLeavingGoesAlong) {
  if (!memory_.sees_pins()) GTEST_SKIP() << "this kernel does not move";
  memory_.expect_pins();
  place_numbers(0, 10);
  for (const std::uint64_t page : {1, 3, 5, 9}) ASSERT_EQ(memory_.guard(run(page, 1)), Errc::ok);
  const PageRun hole = run(7, 1);
  ASSERT_EQ(memory_.discard(std::span(&hole, 1)), Errc::ok);
  const Seized seized = memory_.seize(block(), 0x3ff, 0x155, 0x22a, 0);
  EXPECT_EQ(seized.pages, 0x155U);
  EXPECT_EQ(seized.moved & 0x37f, 0x37fU) << "in one go";
  memory_.release(seized, 0x5);
  for (const std::uint64_t page : {0, 2}) EXPECT_EQ(first_byte(page), static_cast<char>(page));
  for (const std::uint64_t page : {1, 3, 4, 5, 6, 7, 8, 9}) EXPECT_FALSE(can_read(page)) << page;
}

TEST_P(UffdMemoryTest, seize_guardsWhatIsBesideAlong) {
  place_numbers(0, 10);
  const Seized seized = memory_.seize(block(), 0x2dd, 0x255, 0, 0x022);
  EXPECT_EQ(seized.pages, 0x255U);
  EXPECT_EQ(seized.moved, 0U);
  EXPECT_EQ(seized.fenced, 0x022U);
  memory_.release(seized, 0x255);
  for (const std::uint64_t page : {1, 5}) {
    EXPECT_TRUE(can_read(page)) << page;
    EXPECT_FALSE(can_write(page)) << page;
    ASSERT_EQ(memory_.unguard(run(page, 1)), Errc::ok);
    EXPECT_TRUE(can_write(page)) << page;
  }
}

// Pages that leave without being sent do not come in the way of those that are shared since a fork.
TEST_P(UffdMemoryTest, seize_whatIsLeavingAndSharedWithAChild) {
  place_numbers(0, 6);
  for (const std::uint64_t page : {1, 2, 5}) ASSERT_EQ(memory_.guard(run(page, 1)), Errc::ok);
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const Seized seized = memory_.seize(block(), 0x3f, 0x19, 0x26, 0);
  EXPECT_EQ(seized.pages, 0x19U);
  for (const std::uint32_t slot : {0, 3, 4}) EXPECT_EQ(*seized.bytes[slot], std::byte(slot));
  memory_.release(seized, 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// Eviction guards pages along with others, which stay. Later they leave, too.
TEST_P(UffdMemoryTest, seize_whatWasGuardedAndIsSharedSinceAFork) {
  place_numbers(0, 8);
  ASSERT_EQ(memory_.guard(run(3, 1)), Errc::ok);
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const Seized seized = memory_.seize(block(), 0xff, 0xff, 0, 0);
  EXPECT_EQ(seized.pages, 0xffU);
  for (std::uint32_t slot = 0; slot < 8; ++slot) EXPECT_EQ(*seized.bytes[slot], std::byte(slot));
  memory_.release(seized, 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_P(UffdMemoryTest, seize_nothingIsGuardedAlongIfPinsAreExpected) {
  memory_.expect_pins();
  place_numbers(0, 10);
  const Seized seized = memory_.seize(block(), 0x2dd, 0x255, 0, 0x022);
  EXPECT_EQ(seized.pages, 0x255U);
  EXPECT_EQ(seized.fenced, 0U);
  for (const std::uint64_t page : {1, 5}) EXPECT_TRUE(can_write(page)) << page;
  memory_.release(seized, 0);
}

TEST_P(UffdMemoryTest, seize_asOftenAsOneLikes) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(memory_.place_zeros(run(0, kPages)), Errc::ok);
    const Seized seized = memory_.seize(block(), ~Slots{0}, ~Slots{0}, 0, 0);
    ASSERT_EQ(seized.pages, ~Slots{0});
    memory_.release(seized, 0);
    const PageRun all = run(0, kPages);
    ASSERT_EQ(memory_.discard(std::span(&all, 1)), Errc::ok);
  }
}

// What io_uring_register was told of, the kernel writes to without looking whether it is still the program's.
TEST_P(UffdMemoryTest, seize_notWhatTheKernelHasPinned) {
  if (!memory_.sees_pins()) GTEST_SKIP() << "this kernel does not tell";
  memory_.expect_pins();
  place_numbers(0, 4);
  io_uring_params parameters{};
  const Fd ring(static_cast<int>(syscall(SYS_io_uring_setup, 4, &parameters)));
  const iovec pinned{(first_ + 2).address(), kPageSize};
  if (!ring || syscall(SYS_io_uring_register, ring.get(), IORING_REGISTER_BUFFERS, &pinned, 1) != 0) {
    GTEST_SKIP() << "no io_uring here";
  }
  const Seized seized = memory_.seize(block(), 0xf, 0xf, 0, 0);
  EXPECT_EQ(seized.pages, 0xbU);
  EXPECT_TRUE(can_write(2));
  EXPECT_EQ(first_byte(2), 2);
  memory_.release(seized, 0);
}

TEST_P(UffdMemoryTest, seize_whatIsSharedWithAChild) {
  place_numbers(0, 4);
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const Seized seized = memory_.seize(block(), 0xf, 0xf, 0, 0);
  EXPECT_EQ(seized.pages, 0xfU);
  EXPECT_EQ(*seized.bytes[3], std::byte{3});
  memory_.release(seized, 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_P(UffdMemoryTest, seize_whatMayNotBeWritten) {
  place_numbers(0, 4);
  mprotect((first_ + 1).address(), kPageSize, PROT_READ);
  const Seized seized = memory_.seize(block(), 0xf, 0xf, 0, 0);
  EXPECT_EQ(seized.pages, 0xfU);
  EXPECT_EQ(seized.moved & 2, 0U) << "it is read where it is";
  EXPECT_EQ(*seized.bytes[1], std::byte{1});
  memory_.release(seized, 0xf);
  for (const std::uint64_t page : {0, 1, 2, 3}) EXPECT_EQ(first_byte(page), static_cast<char>(page));
  EXPECT_TRUE(can_write(3));
}

TEST_P(UffdMemoryTest, peek_whatMayNotBeRead) {
  if (!memory_.can_peek()) GTEST_SKIP() << "this system does not let a process read such memory of its own";
  place_numbers(0, 3);
  const auto allow = [&](int protection) { ASSERT_EQ(mprotect((first_ + 1).address(), kPageSize, protection), 0); };
  allow(PROT_NONE);
  const Seized seized = memory_.seize(block(), 0x7, 0x2, 0, 0);
  EXPECT_EQ(seized.pages, 0x2U);
  EXPECT_EQ(seized.moved, 0U);
  std::vector<std::byte> page(kPageSize);
  EXPECT_EQ(memory_.peek(first_ + 1, page.data()), Errc::ok);
  EXPECT_EQ(page, pages_of(1, 1));
  allow(PROT_READ | PROT_WRITE);
  EXPECT_FALSE(can_write(1)) << "it is guarded, whatever the program allows itself now";
  allow(PROT_NONE);
  memory_.release(seized, 0);
  const PageRun one = run(1, 1);
  ASSERT_EQ(memory_.discard(std::span(&one, 1)), Errc::ok);
  ASSERT_EQ(memory_.place(one, page.data(), false), Errc::ok) << "it may come back before it may be read";
  allow(PROT_READ | PROT_WRITE);
  EXPECT_EQ(first_byte(1), 1);
  EXPECT_TRUE(can_write(1));
}

TEST_P(UffdMemoryTest, peek_whereNothingIs) {
  std::vector<std::byte> page(kPageSize);
  EXPECT_NE(memory_.peek(first_ + 5, page.data()), Errc::ok);
}

TEST_P(UffdMemoryTest, dismiss_isTheKernelsAgain) {
  ASSERT_EQ(memory_.dismiss(run(0, kPages)), Errc::ok);
  EXPECT_TRUE(can_write(7));
}

// Faults in system calls are not ours under this delivery, so no right is needed.
TEST(UffdMemoryRights, open_inlineIsForEverybody) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  const pid_t child = fork();
  if (child == 0) {
    OwnMemory own;
    UffdMemory memory(own);
    _exit(setresuid(65534, 65534, 65534) == 0 && memory.open(Delivery::inline_signal) == Errc::ok ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A process that wakes may have huge pages, and two threads that evict from one of them: Linux 6.18 then says of pages
// that it has moved that they were there already.
TEST_P(UffdMemoryTest, seize_byTwoThreadsFromOneHugePage) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  constexpr std::uint32_t kBlocks = kHuge / kPageSize / kBlockPages;
  for (int round = 0; round < 40; ++round) {
    void* const area = mmap(nullptr, 2 * kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(area, MAP_FAILED);
    const PageNo first =
        PageNo::of(reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(area) + kHuge - 1) & ~(kHuge - 1)));
    madvise(first.address(), kHuge, MADV_HUGEPAGE);
    for (std::uint64_t i = 0; i < kHuge / kPageSize; ++i) std::memcpy((first + i).address(), &i, sizeof i);
    ASSERT_EQ(memory_.enlist(PageRun{first, kHuge / kPageSize}), Errc::ok);
    std::atomic<std::uint32_t> ready{0};
    std::atomic<std::uint32_t> right{0};
    const auto evict = [&](std::uint32_t thread) {
      for (std::uint32_t block = thread; block < kBlocks; block += 2) {
        for (ready.fetch_add(1); ready.load() < block - thread + 2;) sched_yield();
        const std::uint64_t from = std::uint64_t{block} * kBlockPages;
        const Seized seized = memory_.seize(BlockNo::of(first + from), ~Slots{0}, ~Slots{0}, 0, 0);
        // On an old kernel they stay where they are. Otherwise one that was not moved is not there.
        for_each_slot(memory_.sees_pins() ? seized.moved : seized.pages, [&](std::uint32_t slot) {
          std::uint64_t number = 0;
          std::memcpy(&number, seized.bytes[slot], sizeof number);
          right += number == from + slot ? 1 : 0;
        });
        memory_.release(seized, 0);
      }
    };
    std::thread other(evict, 1);
    evict(0);
    other.join();
    munmap(area, 2 * kHuge);
    ASSERT_EQ(right, kHuge / kPageSize);
  }
}

}  // namespace
}  // namespace comex

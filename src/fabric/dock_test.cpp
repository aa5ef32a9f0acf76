#include "fabric/dock.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

namespace comex {
namespace {

constexpr std::size_t kBytes = std::size_t{200} << kPageShift;

class DockTest : public ::testing::Test {
 protected:
  DockTest() {
    EXPECT_EQ(dock_.open(Dock::make_file(kBytes), kBytes), Errc::ok);
    far_ = static_cast<std::byte*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, dock_.file(), 0));
  }
  ~DockTest() override { ::munmap(far_, kBytes); }

  Dock dock_;
  std::byte* far_ = nullptr;  // as the other end has it
};

TEST_F(DockTest, take_givesEachPageOnceAndThenNone) {
  std::set<std::byte*> taken;
  for (int i = 0; i < 50; ++i) taken.insert(dock_.take(4 * kPageSize - 1));
  EXPECT_EQ(taken.size(), 50U);
  EXPECT_FALSE(taken.contains(nullptr));
  EXPECT_EQ(dock_.take(1), nullptr);
}

TEST_F(DockTest, take_ofWhatIsNotOpenIsNothing) {
  Dock none;
  EXPECT_EQ(none.take(1), nullptr);
  EXPECT_EQ(none.find(far_, 1), std::nullopt);
  EXPECT_EQ(none.file(), -1);
}

TEST_F(DockTest, find_knowsItsOwnWholePages) {
  std::byte* const first = dock_.take(kBytes);
  EXPECT_EQ(dock_.find(first, 200), 0U);
  EXPECT_EQ(dock_.find(first + 7 * kPageSize, 193), 7U);
  EXPECT_EQ(dock_.find(first + 7 * kPageSize, 194), std::nullopt);
  EXPECT_EQ(dock_.find(first + 1, 1), std::nullopt);
  EXPECT_EQ(dock_.find(first - kPageSize, 1), std::nullopt);
  EXPECT_EQ(dock_.find(first + kBytes, 1), std::nullopt);
}

TEST_F(DockTest, part_keepsTheBytesAndNobodyElseHasThem) {
  std::byte* const pages = dock_.take(kBytes);
  std::memset(pages, 5, kBytes);
  ASSERT_TRUE(dock_.part(pages + 63 * kPageSize, 2));
  std::memset(far_, 6, kBytes);
  EXPECT_EQ(pages[62 * kPageSize], std::byte{6});
  EXPECT_EQ(pages[63 * kPageSize], std::byte{5});
  EXPECT_EQ(pages[64 * kPageSize], std::byte{5});
  EXPECT_EQ(pages[65 * kPageSize], std::byte{6});
  std::memset(pages + 63 * kPageSize, 7, kPageSize);
  EXPECT_EQ(far_[63 * kPageSize], std::byte{6});
  EXPECT_NE(dock_.find(pages, 63), std::nullopt);
  EXPECT_EQ(dock_.find(pages, 64), std::nullopt);
  EXPECT_EQ(dock_.find(pages + 64 * kPageSize, 2), std::nullopt);
  EXPECT_NE(dock_.find(pages + 65 * kPageSize, 1), std::nullopt);
}

TEST_F(DockTest, part_isInOneStepForThoseWhoRead) {
  std::byte* const pages = dock_.take(kBytes);
  std::memset(pages, 5, kBytes);
  std::atomic<bool> reading{true};
  std::atomic<std::uint64_t> wrong{0};
  std::jthread reader([&] {
    while (reading.load()) {
      for (std::size_t at = 0; at < kBytes; at += kPageSize) {
        wrong += static_cast<volatile std::byte*>(pages)[at] != std::byte{5};
      }
    }
  });
  for (std::uint32_t page = 0; page < 200; page += 4) EXPECT_TRUE(dock_.part(pages + page * kPageSize, 4));
  reading.store(false);
  reader.join();
  EXPECT_EQ(wrong.load(), 0U);
}

TEST_F(DockTest, part_ofOtherMemoryDoesNothing) {
  alignas(kPageSize) static std::byte other[kPageSize];
  EXPECT_TRUE(dock_.part(other, 1));
  EXPECT_NE(dock_.find(dock_.take(kPageSize), 1), std::nullopt);
}

// Pages of the parent are not there; at the same addresses there are others.
TEST_F(DockTest, renew_givesAChildMemoryOfItsOwn) {
  for (const bool with_file : {true, false}) {
    std::byte* const page = dock_.take(kPageSize);
    std::memset(page, 3, kPageSize);
    const pid_t child = ::fork();
    if (child == 0) {
      if (dock_.renew(with_file ? Dock::make_file(kBytes) : Fd()) != Errc::ok) ::_exit(1);
      if (*page != std::byte{0}) ::_exit(2);
      std::memset(page, 4, kPageSize);
      ::_exit(dock_.find(page, 1).has_value() == with_file ? 0 : 3);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << with_file;
    EXPECT_EQ(*page, std::byte{3});
  }
}

// A child of one that has parted with pages, too.
TEST_F(DockTest, renew_afterPagesWerePartedWith) {
  std::byte* const pages = dock_.take(kBytes);
  std::memset(pages, 3, kBytes);
  ASSERT_TRUE(dock_.part(pages + kPageSize, 1));
  const pid_t child = ::fork();
  if (child == 0) {
    if (dock_.renew(Dock::make_file(kBytes)) != Errc::ok) ::_exit(1);
    for (std::size_t at = 0; at < kBytes; ++at) {
      if (pages[at] != std::byte{0}) ::_exit(2);
    }
    ::_exit(dock_.find(pages, 200) ? 0 : 3);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pages[kPageSize], std::byte{3});
}

// The kernel would say so with a signal that ends the program.
TEST_F(DockTest, makeFile_doesWithoutWhereFilesMayNotBeThatLong) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit most{kBytes - 1, kBytes - 1};
    ::setrlimit(RLIMIT_FSIZE, &most);
    ::_exit(Dock::make_file(kBytes) ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(DockTest, makeFile_cannotChangeItsSize) {
  EXPECT_NE(::ftruncate(dock_.file(), 0), 0);
  EXPECT_NE(::ftruncate(dock_.file(), 2 * kBytes), 0);
}

}  // namespace
}  // namespace comex

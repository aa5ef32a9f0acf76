#include "node/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "base/fd.h"
#include "base/units.h"

namespace comex {
namespace {

constexpr std::size_t kSlabBytes = 2 * kMiB;
constexpr std::uint32_t kSlabFrames = 512;

std::unique_ptr<Arena> make_arena(std::uint64_t bytes, bool huge_pages = false) {
  // Not locked: whoever runs the tests may lock little.
  auto arena = Arena::create({.bytes = bytes, .lock = false, .huge_pages = huge_pages});
  if (!arena) {
    ADD_FAILURE() << arena.error().message;
    return nullptr;
  }
  return *std::move(arena);
}

// What a client does with a descriptor.
class ClientMapping {
 public:
  explicit ClientMapping(int fd) : fd_(::dup(fd)) {
    void* mapped = ::mmap(nullptr, kSlabBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    memory = mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped);
  }
  ~ClientMapping() { ::munmap(memory, kSlabBytes); }
  ClientMapping(const ClientMapping&) = delete;
  ClientMapping& operator=(const ClientMapping&) = delete;
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] blkcnt_t blocks() const {
    struct stat status {};
    ::fstat(fd_.get(), &status);
    return status.st_blocks;
  }
  char* memory;

 private:
  Fd fd_;
};

char* slab_memory(const Arena& arena, std::uint32_t slab) {
  return reinterpret_cast<char*>(arena.frame_address(FrameNo{slab * kSlabFrames}));
}

bool all(const char* memory, std::size_t bytes, char value) {
  return std::all_of(memory, memory + bytes, [=](char c) { return c == value; });
}

// Runs in a child, where limits may be lowered: the message of create's error, or "" if it succeeds.
std::string create_error_with(const std::function<void()>& prepare, const Arena::Config& config) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    prepare();
    const auto arena = Arena::create(config);
    const std::string message = arena ? "" : arena.error().message;
    const bool written = ::write(ends[1], message.data(), message.size()) == static_cast<ssize_t>(message.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  Fd reader(ends[0]);
  std::string message;
  char buffer[512];
  for (ssize_t n; (n = ::read(reader.get(), buffer, sizeof buffer)) > 0;) message.append(buffer, n);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return message;
}

TEST(SlabOrder, is_the_smallest_that_makes_at_most_4096_slabs) {
  EXPECT_EQ(slab_order_for(0), 9u);
  EXPECT_EQ(slab_order_for(2 * kMiB), 9u);
  EXPECT_EQ(slab_order_for(8 * kGiB), 9u);
  EXPECT_EQ(slab_order_for(8 * kGiB + 4 * kMiB), 10u);
  EXPECT_EQ(slab_order_for(64 * kGiB), 12u);
  EXPECT_EQ(slab_order_for(16 * kTiB), 20u);
  for (std::uint64_t bytes = kMiB; bytes < 16 * kTiB; bytes += bytes / 3) {
    EXPECT_LE(bytes >> kPageShift >> slab_order_for(bytes), 4096u);
  }
}

TEST(Arena, create_rounds_down_to_whole_slabs) {
  const auto arena = make_arena(7 * kMiB);
  ASSERT_TRUE(arena);
  EXPECT_EQ(arena->slabs(), 3u);
  EXPECT_EQ(arena->slab_order(), 9u);
  EXPECT_EQ(arena->frames(), 3 * kSlabFrames);
  EXPECT_EQ(arena->huge_slabs(), 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena->base()) % kSlabBytes, 0u);
}

TEST(Arena, frames_are_contiguous_zeroed_and_writable_throughout) {
  const auto arena = make_arena(6 * kMiB);
  ASSERT_TRUE(arena);
  char* memory = reinterpret_cast<char*>(arena->base());
  EXPECT_TRUE(all(memory, 6 * kMiB, 0));
  std::memset(memory, 'x', 6 * kMiB);
  EXPECT_EQ(arena->frame_address(FrameNo{700}), arena->base() + 700 * kPageSize);
  EXPECT_EQ(static_cast<char>(*arena->frame_address(FrameNo{1535})), 'x');
}

TEST(Arena, create_reports_progress) {
  std::vector<std::uint64_t> seen;
  const auto arena = Arena::create(
      {.bytes = 6 * kMiB, .lock = false, .progress = [&](std::uint64_t bytes) { seen.push_back(bytes); }});
  ASSERT_TRUE(arena);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{2 * kMiB, 2 * kMiB, 2 * kMiB}));
}

TEST(Arena, create_allocates_the_memory_at_once) {
  const auto arena = make_arena(4 * kMiB);
  ASSERT_TRUE(arena);
  EXPECT_EQ(ClientMapping(*arena->slab_fd(1)).blocks(), static_cast<blkcnt_t>(kSlabBytes / 512));
}

TEST(Arena, create_can_leave_the_memory_until_a_slab_is_handed_out) {
  const auto small = Arena::create({.bytes = 6 * kMiB, .lock = false, .ahead = false});
  ASSERT_TRUE(small);
  EXPECT_EQ(ClientMapping(*(*small)->slab_fd(1)).blocks(), static_cast<blkcnt_t>(kSlabBytes / 512));
  // More than there is.
  const auto large = Arena::create({.bytes = kTiB, .lock = false, .ahead = false});
  ASSERT_TRUE(large);
  *(*large)->frame_address(FrameNo{12'345}) = std::byte{1};
}

TEST(Arena, a_slab_made_when_handed_out_is_nothing_again_after_renew) {
  const auto arena = Arena::create({.bytes = 6 * kMiB, .lock = false, .ahead = false});
  ASSERT_TRUE(arena);
  const FrameNo frame{kSlabBytes >> kPageShift};
  {
    const ClientMapping zombie(*(*arena)->slab_fd(1));
    *(*arena)->frame_address(frame) = std::byte{1};
    ASSERT_TRUE((*arena)->renew(1));
    EXPECT_EQ(zombie.blocks(), 0);
  }
  EXPECT_FALSE((*arena)->exported(1));
  EXPECT_EQ(*(*arena)->frame_address(frame), std::byte{0});
  const ClientMapping heir(*(*arena)->slab_fd(1));
  EXPECT_EQ(heir.blocks(), static_cast<blkcnt_t>(kSlabBytes / 512));
}

TEST(Arena, create_refuses_less_than_a_slab) {
  const auto arena = Arena::create({.bytes = kMiB});
  ASSERT_FALSE(arena);
  EXPECT_EQ(arena.error().code, Errc::invalid);
  EXPECT_NE(arena.error().message.find("raise --memory"), std::string::npos) << arena.error().message;
}

TEST(Arena, create_refuses_more_than_frame_numbers_can_count) {
  for (const std::uint64_t bytes : {16 * kTiB, 1000 * kTiB, UINT64_MAX}) {
    const auto arena = Arena::create({.bytes = bytes});
    ASSERT_FALSE(arena);
    EXPECT_EQ(arena.error().code, Errc::invalid) << arena.error().message;
  }
}

TEST(Arena, create_says_what_to_do_about_the_limit_of_open_files) {
  const auto lower = [] {
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  };
  const std::string message = create_error_with(lower, {.bytes = 200 * kMiB, .lock = false});
  EXPECT_NE(message.find("ulimit -n 164"), std::string::npos) << message;
  EXPECT_NE(message.find("LimitNOFILE=164"), std::string::npos) << message;
}

TEST(Arena, create_raises_the_soft_limit_of_open_files) {
  const auto lower = [] {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 20;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  };
  EXPECT_EQ(create_error_with(lower, {.bytes = 100 * kMiB, .lock = false}), "");
}

TEST(Arena, create_says_what_to_do_about_the_limit_of_locked_memory) {
  const auto lower = [] {
    const rlimit limit{1 * kMiB, 1 * kMiB};
    ::setrlimit(RLIMIT_MEMLOCK, &limit);
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(1);  // the limit does not bind root
  };
  const std::string message = create_error_with(lower, {.bytes = 10 * kMiB, .huge_pages = false});
  for (const char* hint : {"1.00 MiB", "ulimit -l", "LimitMEMLOCK=infinity", "--no-lock"}) {
    EXPECT_NE(message.find(hint), std::string::npos) << message;
  }
  EXPECT_EQ(create_error_with(lower, {.bytes = 10 * kMiB, .lock = false}), "");
}

TEST(Arena, create_locks_within_the_limit_and_keeps_room_to_renew) {
  const auto lower = [] {
    const rlimit limit{8 * kMiB, 8 * kMiB};
    ::setrlimit(RLIMIT_MEMLOCK, &limit);
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(1);
    const auto arena = Arena::create({.bytes = 6 * kMiB, .huge_pages = false});
    if (!arena) ::_exit(2);
    for (std::uint32_t slab = 0; slab < 3; ++slab) {
      (void)arena.value()->slab_fd(slab);
      if (!arena.value()->renew(slab)) ::_exit(3);
    }
    ::_exit(0);
  };
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (::geteuid() != 0 && limit.rlim_max < 8 * kMiB) GTEST_SKIP() << "may not lock 8 MiB";
  EXPECT_EQ(create_error_with(lower, {}), "");
}

TEST(Arena, create_says_when_the_addresses_run_out) {
  const auto lower = [] {
    const rlimit limit{4 * kGiB, 4 * kGiB};
    ::setrlimit(RLIMIT_AS, &limit);
  };
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer needs more addresses than this test leaves";
#endif
  const std::string message = create_error_with(lower, {.bytes = 8 * kGiB, .lock = false});
  EXPECT_NE(message.find("cannot reserve addresses for 8.00 GiB"), std::string::npos) << message;
}

TEST(Arena, slab_fd_reaches_that_slab_and_marks_it) {
  const auto arena = make_arena(6 * kMiB);
  ASSERT_TRUE(arena);
  EXPECT_FALSE(arena->exported(1));
  const ClientMapping client(*arena->slab_fd(1));
  EXPECT_TRUE(arena->exported(1));
  EXPECT_FALSE(arena->exported(0));
  client.memory[5] = 'c';
  EXPECT_EQ(slab_memory(*arena, 1)[5], 'c');
  slab_memory(*arena, 1)[6] = 'n';
  EXPECT_EQ(client.memory[6], 'n');
}

TEST(Arena, exported_descriptors_can_be_neither_resized_nor_sealed) {
  const auto arena = make_arena(4 * kMiB);
  ASSERT_TRUE(arena);
  const int fd = *arena->slab_fd(0);
  EXPECT_NE(::ftruncate(fd, 0), 0);
  EXPECT_NE(::ftruncate(fd, 4 * kMiB), 0);
  EXPECT_NE(::fallocate(fd, 0, 0, 4 * kMiB), 0);
  for (const int seal : {F_SEAL_WRITE, F_SEAL_FUTURE_WRITE, F_SEAL_SEAL}) {
    EXPECT_NE(::fcntl(fd, F_ADD_SEALS, seal), 0);
  }
  EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Arena, zero_scrubs_exactly_the_extent) {
  const auto arena = make_arena(4 * kMiB);
  ASSERT_TRUE(arena);
  char* memory = slab_memory(*arena, 0);
  (void)arena->slab_fd(1);  // slab 0 is scrubbed one way, the exported one another
  std::memset(memory, 'x', 2 * kSlabBytes);
  for (const std::uint32_t first : {3u, kSlabFrames + 3}) {
    arena->zero(Extent{FrameNo{first}, 5});
    const std::size_t at = first * kPageSize;
    EXPECT_TRUE(all(memory + at, 5 * kPageSize, 0));
    EXPECT_EQ(memory[at - 1], 'x');
    EXPECT_EQ(memory[at + 5 * kPageSize], 'x');
  }
}

TEST(Arena, a_client_that_punches_holes_hurts_only_itself) {
  const auto arena = make_arena(4 * kMiB);
  ASSERT_TRUE(arena);
  const ClientMapping client(*arena->slab_fd(0));
  std::memset(slab_memory(*arena, 0), 'x', 2 * kSlabBytes);
  ASSERT_EQ(::fallocate(client.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kSlabBytes), 0);
  EXPECT_TRUE(all(slab_memory(*arena, 0), kSlabBytes, 0));
  arena->zero(Extent{FrameNo{0}, kSlabFrames});
  EXPECT_TRUE(all(slab_memory(*arena, 1), kSlabBytes, 'x'));
}

TEST(Arena, renew_gives_a_zeroed_slab_that_is_no_longer_exported) {
  const auto arena = make_arena(6 * kMiB);
  ASSERT_TRUE(arena);
  std::memset(slab_memory(*arena, 0), 'x', 3 * kSlabBytes);
  (void)arena->slab_fd(1);
  ASSERT_TRUE(arena->renew(1));
  EXPECT_FALSE(arena->exported(1));
  EXPECT_TRUE(all(slab_memory(*arena, 1), kSlabBytes, 0));
  EXPECT_TRUE(all(slab_memory(*arena, 0), kSlabBytes, 'x'));
  EXPECT_TRUE(all(slab_memory(*arena, 2), kSlabBytes, 'x'));
}

TEST(Arena, renew_parts_the_slab_from_a_zombie) {
  const auto arena = make_arena(4 * kMiB);
  ASSERT_TRUE(arena);
  const ClientMapping zombie(*arena->slab_fd(0));
  std::memset(zombie.memory, 'z', kSlabBytes);
  ASSERT_TRUE(arena->renew(0));
  EXPECT_TRUE(all(slab_memory(*arena, 0), kSlabBytes, 0));
  std::memset(slab_memory(*arena, 0), 'n', kSlabBytes);
  EXPECT_TRUE(all(zombie.memory, kSlabBytes, 0)) << "sees nothing new, nor keeps the old";
  std::memset(zombie.memory, 'z', kSlabBytes);
  EXPECT_TRUE(all(slab_memory(*arena, 0), kSlabBytes, 'n'));
  // And the next client gets the fresh one.
  const ClientMapping heir(*arena->slab_fd(0));
  EXPECT_TRUE(all(heir.memory, kSlabBytes, 'n'));
}

TEST(Arena, renew_gives_the_memory_back_while_a_zombie_maps_it) {
  const auto arena = make_arena(4 * kMiB);
  ASSERT_TRUE(arena);
  const ClientMapping zombie(*arena->slab_fd(0));
  std::memset(zombie.memory, 'z', kSlabBytes);
  EXPECT_GT(zombie.blocks(), 0);
  ASSERT_TRUE(arena->renew(0));
  EXPECT_EQ(zombie.blocks(), 0);
}

TEST(Arena, renew_that_fails_leaves_the_slab_as_it_was) {
  const auto arena = make_arena(4 * kMiB);
  ASSERT_TRUE(arena);
  const ClientMapping client(*arena->slab_fd(0));
  std::memset(client.memory, 'c', kSlabBytes);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{3, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const auto renewed = arena->renew(0);
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(renewed);
  EXPECT_TRUE(arena->exported(0));
  EXPECT_TRUE(all(slab_memory(*arena, 0), kSlabBytes, 'c'));
  slab_memory(*arena, 0)[0] = 'n';
  EXPECT_EQ(client.memory[0], 'n');
  EXPECT_TRUE(arena->renew(0));
}

TEST(Arena, renew_does_not_disturb_threads_at_work_in_other_slabs) {
  const auto arena = make_arena(8 * kMiB);
  ASSERT_TRUE(arena);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> rounds{0};
  std::atomic<std::uint64_t> errors{0};
  std::thread lane([&] {
    for (char value = 1; !stop; value = static_cast<char>(value % 100 + 1)) {
      for (const std::uint32_t slab : {0u, 3u}) std::memset(slab_memory(*arena, slab), value, kSlabBytes);
      for (const std::uint32_t slab : {0u, 3u}) errors += !all(slab_memory(*arena, slab), kSlabBytes, value);
      ++rounds;
    }
  });
  for (int i = 0; i < 50 || rounds < 3; ++i) {
    const std::uint32_t slab = 1 + i % 2;
    (void)arena->slab_fd(slab);
    ASSERT_TRUE(arena->renew(slab));
    std::memset(slab_memory(*arena, slab), 'x', kSlabBytes);
  }
  stop = true;
  lane.join();
  EXPECT_EQ(errors, 0u);
}

TEST(Arena, uses_huge_pages_where_there_are_some) {
  const auto arena = make_arena(6 * kMiB, true);
  ASSERT_TRUE(arena);
  std::memset(slab_memory(*arena, 0), 'x', 3 * kSlabBytes);
  EXPECT_TRUE(all(slab_memory(*arena, 0), 3 * kSlabBytes, 'x'));
  if (arena->huge_slabs() == 0) GTEST_SKIP() << "this host has no free huge pages; ran on normal ones";
  // They come first, so slab 0 is one of them.
  const std::uint32_t before = arena->huge_slabs();
  const ClientMapping zombie(*arena->slab_fd(0));
  ASSERT_TRUE(arena->renew(0));
  EXPECT_EQ(arena->huge_slabs(), before) << "the spare pages keep a renewed slab huge";
  EXPECT_EQ(zombie.blocks(), 0);
  EXPECT_TRUE(all(slab_memory(*arena, 0), kSlabBytes, 0));
  EXPECT_NE(::ftruncate(*arena->slab_fd(0), 0), 0);
}

TEST(Arena, drop_gives_memory_back_that_a_client_still_maps) {
  const auto arena = make_arena(4 * kSlabBytes);
  std::memset(slab_memory(*arena, 1), 1, kSlabBytes);
  const ClientMapping client(*arena->slab_fd(1));
  ASSERT_GT(client.blocks(), 0);
  ASSERT_TRUE(arena->drop(1));
  EXPECT_EQ(client.blocks(), 0);
  EXPECT_FALSE(arena->exported(1));
  client.memory[0] = 7;
  ASSERT_TRUE(arena->restore(1));
  EXPECT_TRUE(all(slab_memory(*arena, 1), kSlabBytes, 0)) << "fresh, and nobody else's";
  const ClientMapping next(*arena->slab_fd(1));
  next.memory[5] = 3;
  EXPECT_EQ(slab_memory(*arena, 1)[5], 3);
  EXPECT_EQ(client.memory[5], 0);
}

}  // namespace
}  // namespace comex

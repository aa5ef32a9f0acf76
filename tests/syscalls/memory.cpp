// Calls that would take memory away, and fail: what was there is there still.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "syscalls/suite.h"

using namespace suite;

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBytes = 64 * kPage;

char* map(std::size_t bytes, int flags = MAP_PRIVATE, int protection = PROT_READ | PROT_WRITE) {
  void* const memory = mmap(nullptr, bytes, protection, flags | MAP_ANONYMOUS, -1, 0);
  check(memory != MAP_FAILED, "mmap");
  return static_cast<char*>(memory);
}

char* filled(std::uint32_t seed) {
  char* const memory = map(kBytes);
  fill(memory, kBytes, seed);
  return memory;
}

// As many mappings as a process may have.
class NoMoreMappings {
 public:
  NoMoreMappings() : memory_(map(kMost * kPage, MAP_SHARED, PROT_NONE)) {
    for (std::size_t at = 0; at < kMost * kPage; at += 2 * kPage) {
      if (mprotect(memory_ + at, kPage, PROT_READ) != 0) return;
    }
    throw Skipped{"there is no limit"};
  }
  ~NoMoreMappings() { munmap(memory_, kMost * kPage); }
  NoMoreMappings(const NoMoreMappings&) = delete;
  NoMoreMappings& operator=(const NoMoreMappings&) = delete;

 private:
  static constexpr std::size_t kMost = 140'000;
  char* const memory_;
};

template <typename Call>
void fails(const char* name, const char* memory, Call&& call) {
  const auto before = digest(memory, kBytes);
  const long answer = call();
  const int error = errno;
  result("%s: %s, %s", name, answer == -1 ? std::strerror(error) : "done",
         digest(memory, kBytes) == before ? "as before" : "lost");
}

}  // namespace

CASE_APART(memory_that_cannot_be_replaced) {
  char* const memory = filled(1);
  evict();
  constexpr int kFixed = MAP_PRIVATE | MAP_FIXED;
  fails("no such file", memory,
        [&] { return reinterpret_cast<long>(mmap(memory + 4 * kPage, 8 * kPage, PROT_READ, kFixed, 1000, 0)); });
  fails("no such flags", memory, [&] {
    return reinterpret_cast<long>(mmap(memory + 4 * kPage, 8 * kPage, PROT_READ, MAP_FIXED | MAP_ANONYMOUS, -1, 0));
  });
  fails("onto itself", memory, [&] {
    return syscall(SYS_mremap, memory, 8 * kPage, 8 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, memory + 4 * kPage);
  });
  char* const other = filled(2);
  fails("onto it, no such flags", memory, [&] {
    return syscall(SYS_mremap, other, 8 * kPage, 8 * kPage, 64 | MREMAP_MAYMOVE | MREMAP_FIXED, memory + 4 * kPage);
  });
  fails("unmapped at an odd address", memory, [&] { return long{munmap(memory + 7, kPage)}; });
}

CASE_APART(memory_that_cannot_be_unmapped) {
  char* const memory = filled(3);
  // Not afterwards: memory that comes from a node needs mappings as well.
  for (int i = 0; i < 4; ++i) evict();
  const NoMoreMappings full;
  fails("unmapped", memory, [&] { return long{munmap(memory + 4 * kPage, 8 * kPage)}; });
  fails("shrunk", memory, [&] { return syscall(SYS_mremap, memory + 4 * kPage, 8 * kPage, kPage, 0); });
}

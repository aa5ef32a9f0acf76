// Calls that take memory away, or fail: what was there is there still, or is what was put there.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
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
  fails("everything onto it", memory, [&] {
    return syscall(SYS_mremap, nullptr, SIZE_MAX, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, memory + 4 * kPage);
  });
}

CASE_APART(a_break_that_is_refused) {
  char* const begin = reinterpret_cast<char*>((syscall(SYS_brk, nullptr) + kPage - 1) & ~(kPage - 1));
  check(syscall(SYS_brk, begin + kBytes) == reinterpret_cast<long>(begin + kBytes), "brk");
  fill(begin, kBytes, 4);
  evict();
  for (const long to : {-1L, 4096L}) {
    fails("", begin, [&] { return syscall(SYS_brk, to) == reinterpret_cast<long>(begin + kBytes) ? 0L : 1L; });
  }
}

// Mapped once more, where there was something else.
CASE_APART(shared_memory_onto_evicted) {
  char* const memory = filled(5);
  char* const shared = map(kBytes, MAP_SHARED);
  fill(shared, kBytes, 6);
  evict();
  check(syscall(SYS_mremap, shared, 0, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, memory) == reinterpret_cast<long>(memory),
        "mremap");
  evict();
  result("%d; ", digest(memory, kBytes) == digest(shared, kBytes));
  int ends[2];
  must(pipe(ends), "pipe");
  result("%ld of it in a pipe; ", EVICTED(write(ends[1], memory + 3 * kPage, kPage)));
  memory[0] = 77;
  result("shared: %d", shared[0]);
  close(ends[0]), close(ends[1]);
}

namespace {

struct Reader {
  const volatile char* memory;
  std::atomic<bool> over{false};
  std::atomic<long> looks{0};
};

void* look_around(void* argument) {
  auto& reader = *static_cast<Reader*>(argument);
  while (!reader.over) {
    (void)reader.memory[static_cast<std::size_t>(reader.looks++) % (kBytes / kPage) * kPage];
  }
  return nullptr;
}

}  // namespace

// There is memory all the time, though not always the same.
CASE_APART(replaced_while_another_thread_reads) {
  char* const memory = filled(7);
  evict();
  Reader reader{memory};
  pthread_t thread{};
  check(pthread_create(&thread, nullptr, look_around, &reader) == 0, "pthread_create");
  for (int turn = 0; turn < 20'000 || reader.looks < 1000; ++turn) {
    const int kind = turn % 8 == 0 ? MAP_SHARED : MAP_PRIVATE;
    check(mmap(memory, kBytes, PROT_READ | PROT_WRITE, kind | MAP_FIXED | MAP_ANONYMOUS, -1, 0) == memory, "mmap");
    if (turn % 16 == 1) fill(memory, kPage, 8);
  }
  reader.over = true;
  pthread_join(thread, nullptr);
  int ends[2];
  must(pipe(ends), "pipe");
  long written = 0;
  for (std::size_t at = 0; at < kBytes; at += kPage) written += must(write(ends[1], memory + at, 8), "write");
  result("%ld bytes in the end", written);
  close(ends[0]), close(ends[1]);
}

CASE_APART(memory_that_cannot_be_unmapped) {
  char* const memory = filled(3);
  // Not afterwards: memory that comes from a node needs mappings as well.
  for (int i = 0; i < 4; ++i) evict();
  const NoMoreMappings full;
  fails("unmapped", memory, [&] { return long{munmap(memory + 4 * kPage, 8 * kPage)}; });
  fails("shrunk", memory, [&] { return syscall(SYS_mremap, memory + 4 * kPage, 8 * kPage, kPage, 0); });
}

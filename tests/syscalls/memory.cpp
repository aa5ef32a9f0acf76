// Calls that take memory away, or fail: what was there is there still, or is what was put there.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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
  bool apart;
  std::atomic<bool> over{false};
  std::atomic<long> looks{0};
};

void* look_around(void* argument) {
  auto& reader = *static_cast<Reader*>(argument);
  if (reader.apart) must(unshare(CLONE_FILES), "unshare");
  while (!reader.over) {
    (void)reader.memory[static_cast<std::size_t>(reader.looks++) % (kBytes / kPage) * kPage];
  }
  return nullptr;
}

// There is memory all the time, though not always the same. Apart: both threads have descriptors of their own.
void replace_under_a_reader(int turns, bool apart) {
  char* const memory = filled(7);
  evict();
  if (apart) must(unshare(CLONE_FILES), "unshare");
  Reader reader{memory, apart};
  pthread_t thread{};
  check(pthread_create(&thread, nullptr, look_around, &reader) == 0, "pthread_create");
  for (int turn = 0; turn < turns || reader.looks < 1000; ++turn) {
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

}  // namespace

CASE_APART(replaced_while_another_thread_reads) {
  replace_under_a_reader(20'000, false);
}

CASE_APART(replaced_while_a_thread_reads_and_both_are_apart) {
  replace_under_a_reader(2'000, true);
}

CASE_APART(memory_that_cannot_be_unmapped) {
  char* const memory = filled(3);
  // Not afterwards: memory that comes from a node needs mappings as well.
  for (int i = 0; i < 4; ++i) evict();
  const NoMoreMappings full;
  fails("unmapped", memory, [&] { return long{munmap(memory + 4 * kPage, 8 * kPage)}; });
  fails("shrunk", memory, [&] { return syscall(SYS_mremap, memory + 4 * kPage, 8 * kPage, kPage, 0); });
}

// --- advice that takes memory away ---

namespace {

// Which eighths of it are zeros, which as before, and which neither.
void tell(const char* name, const char* memory, const char* before) {
  constexpr std::size_t kPart = kBytes / 8;
  static const char zeros[kPart] = {};
  char parts[9] = {};
  for (std::size_t i = 0; i < 8; ++i) {
    const char* const part = memory + i * kPart;
    const bool same = std::memcmp(part, before + i * kPart, kPart) == 0;
    parts[i] = same ? '=' : std::memcmp(part, zeros, kPart) == 0 ? '0' : '?';
  }
  result("%s: %s", name, parts);
}

char* copy_of(const char* memory) {
  char* const copy = map(kBytes, MAP_SHARED);
  std::memcpy(copy, memory, kBytes);
  return copy;
}

}  // namespace

CASE_APART(advice_in_pieces) {
  char* const memory = filled(21);
  const char* const before = copy_of(memory);
  const int self = static_cast<int>(must(syscall(SYS_pidfd_open, getpid(), 0), "pidfd_open"));
  iovec* const pieces = place<iovec>(2);
  pieces[0] = {memory, kBytes / 4};
  pieces[1] = {memory + kBytes / 2, kBytes / 8};
  const auto advise = [&](int pidfd, std::size_t count, int advice) {
    evict();
    const long done = syscall(SYS_process_madvise, pidfd, pieces, count, advice, 0);
    result("%s, %ld bytes", done == -1 ? std::strerror(errno) : "done", done);
  };
  advise(-1, 2, MADV_DONTNEED);
  advise(self, 2, 0x7777);
  advise(self, 2, MADV_COLD);
  tell("nothing yet", memory, before);
  advise(self, 2, MADV_DONTNEED);
  tell("these two", memory, before);
  close(self);
}

CASE_APART(advice_that_is_new_or_unknown) {
  char* const memory = filled(22);
  const char* const before = copy_of(memory);
  constexpr int kDontNeedLocked = 24;
  constexpr int kInstallGuards = 102;
  constexpr int kRemoveGuards = 103;
  const auto advise = [&](const char* name, std::size_t part, int advice) {
    evict();
    const int done = madvise(memory + part * (kBytes / 8), kBytes / 8, advice);
    result("%s: %s", name, done == -1 ? std::strerror(errno) : "done");
    return done == 0;
  };
  advise("no such advice", 0, 0x7777);
  advise("as if it was locked", 1, kDontNeedLocked);
  const bool guards = advise("guards", 2, kInstallGuards);
  int ends[2];
  must(pipe(ends), "pipe");
  evict();
  const long written = write(ends[1], memory + 2 * (kBytes / 8), 8);
  result("%s", written == -1 ? std::strerror(errno) : "not guarded");
  if (guards) advise("no guards", 2, kRemoveGuards);
  evict();
  tell("then", memory, before);
  close(ends[0]), close(ends[1]);
}

CASE_APART(advice_over_a_hole) {
  char* const memory = filled(23);
  const char* const before = copy_of(memory);
  // What is not adopted, behind the hole: a file's, changed.
  const int file = make_file("behind", kBytes / 4, 24);
  void* const behind =
      mmap(memory + kBytes * 3 / 4, kBytes / 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0);
  check(behind != MAP_FAILED, "mmap");
  const auto of_file = digest(behind, kBytes / 4);
  fill(behind, kBytes / 4, 25);
  must(munmap(memory + kBytes / 4, kPage), "munmap");
  evict();
  for (const int advice : {MADV_WILLNEED, MADV_DONTNEED}) {
    result("%s", madvise(memory, kBytes, advice) == -1 ? std::strerror(errno) : "done");
  }
  evict();
  check(mmap(memory + kBytes / 4, kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED,
        "mmap");
  tell("then", memory, before);
  result("the file's: %s", digest(behind, kBytes / 4) == of_file ? "as in the file" : "lost");
  close(file);
}

// Longer in place, when all that comes is locked: not for us to adopt.
CASE_APART(longer_when_what_comes_is_locked) {
  char* const memory = map(4 * kBytes);
  must(munmap(memory + kBytes, 3 * kBytes), "munmap");
  fill(memory, kBytes, 26);
  const auto before = digest(memory, kBytes);
  evict();
  if (mlockall(MCL_FUTURE) != 0) throw Skipped{"no right to lock memory"};
  check(mremap(memory, kBytes, 2 * kBytes, 0) == memory, "mremap");
  fill(memory + kBytes, kBytes, 27);
  must(munlockall(), "munlockall");
  evict();
  const auto grown = digest(memory + kBytes, kBytes);
  fill(memory + kBytes, kBytes, 27);
  result("%s, %s", digest(memory, kBytes) == before ? "as before" : "lost",
         digest(memory + kBytes, kBytes) == grown ? "and what is new" : "lost");
}

CASE_APART(shared_memory_attached_onto_evicted) {
  char* const memory = filled(28);
  const char* const before = copy_of(memory);
  const int segment = static_cast<int>(must_or_skip(shmget(IPC_PRIVATE, kBytes / 2, 0600), "shmget"));
  evict();
  const void* const refused = shmat(segment, memory, 0);
  result("without asking: %s", refused == memory ? "done" : std::strerror(errno));
  tell("as before", memory, before);
  evict();
  const void* const at = shmat(segment, memory, SHM_REMAP);
  shmctl(segment, IPC_RMID, nullptr);
  check(at == memory, "shmat");
  evict();
  tell("then", memory, before);
  int ends[2];
  must(pipe(ends), "pipe");
  result("%ld of it in a pipe", EVICTED(write(ends[1], memory + kPage, kPage)));
  must(shmdt(memory), "shmdt");
  close(ends[0]), close(ends[1]);
}

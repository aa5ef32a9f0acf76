// A program whose memory is of a kind that may not be noticed, or not be let go: what it has forbidden itself, the
// objects of C++, and what a task with descriptors of its own uses as well. Verifies what it wrote, and prints how much
// was wrong, and how many mebibytes of it were here.
//
//   memory_load hidden|objects|cloned|unshared MEBIBYTES
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kPage = 4096;

// Private memory that is here, in mebibytes.
long local() {
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return -1;
  long kibibytes = -1024;
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), file) != nullptr) {
    if (std::sscanf(line.data(), "RssAnon: %ld", &kibibytes) == 1) break;
  }
  std::fclose(file);
  return kibibytes / 1024;
}

char* map(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<char*>(memory);
}

void write(char* memory, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kPage) std::memcpy(memory + i, &i, sizeof i);
}

std::size_t wrong_in(const char* memory, std::size_t bytes) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < bytes; i += kPage) wrong += std::memcmp(memory + i, &i, sizeof i) != 0;
  return wrong;
}

// Written, and then forbidden to itself, while other memory is used again and again.
std::size_t hidden(std::size_t mebibytes) {
  const std::size_t bytes = mebibytes << 20;
  char* const forbidden = map(bytes);
  write(forbidden, bytes);
  if (mprotect(forbidden, bytes, PROT_NONE) != 0) std::abort();
  constexpr std::size_t kUsed = std::size_t{6} << 20;
  constexpr int kPasses = 20;
  char* const used = map(kUsed);
  write(used, kUsed);
  std::size_t wrong = 0;
  for (int i = 0; i < kPasses; ++i) wrong += wrong_in(used, kUsed);
  if (mprotect(forbidden, bytes, PROT_READ) != 0) std::abort();
  return wrong + wrong_in(forbidden, bytes);
}

// Objects of C++, small ones, some of which do not live long.
std::size_t objects(std::size_t mebibytes) {
  using Object = std::array<std::uint64_t, 64>;
  std::vector<std::unique_ptr<Object>> all;
  for (std::size_t i = 0; i < (mebibytes << 20) / sizeof(Object); ++i) {
    const std::vector<std::size_t> brief(8, i);
    all.push_back(std::make_unique<Object>());
    all.back()->fill(brief[i % brief.size()]);
  }
  std::printf("here: %ld\n", local());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < all.size(); ++i) wrong += all[i]->front() != i || all[i]->back() != i;
  return wrong;
}

// What two tasks use that share it.
struct Shared {
  char* memory;
  std::size_t bytes;
  bool forks;
  pid_t owner = getpid();
  std::atomic<bool> written{false};
  std::atomic<bool> seen{false};
  std::atomic<std::size_t> wrong{0};

  // In a child, too, and in memory that is made meanwhile.
  void look() {
    wrong += wrong_in(memory, bytes);
    const pid_t child = forks ? fork() : 0;
    if (forks && child == 0) _exit(wrong_in(memory, bytes) == 0 ? 0 : 1);
    int status = 1;
    if (forks && (child < 0 || waitpid(child, &status, 0) != child || status != 0)) ++wrong;
    char* more = map(bytes / 4);
    write(more, bytes / 4);
    more = static_cast<char*>(mremap(more, bytes / 4, bytes / 2, MREMAP_MAYMOVE));
    wrong += wrong_in(more, bytes / 4);
    munmap(more, bytes / 2);
    write(memory, bytes);
    wrong += wrong_in(memory, bytes);
  }
};

void close_all() {
  constexpr int kMost = 2000;
  for (int fd = STDERR_FILENO + 1; fd < kMost; ++fd) close(fd);
}

// A task that shares the memory, but not the descriptors: it begins before any memory has left, and closes what it has.
// A thread that has unshared them makes no child: comex cannot help it then, if it was dormant.
std::size_t beside(std::size_t mebibytes, bool cloned) {
  Shared shared{map(mebibytes << 20), mebibytes << 20, cloned};
  static constexpr auto kWork = [](void* argument) {
    auto& all = *static_cast<Shared*>(argument);
    close_all();
    while (!all.written) usleep(1000);
    all.look();
    all.seen = true;
    return 0;
  };
  pid_t child = -1;
  std::thread thread;
  if (cloned) {
    constexpr std::size_t kStack = 256 << 10;
    const auto to_the_end = [](void* argument) {
      auto& all = *static_cast<Shared*>(argument);
      if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != all.owner) return 1;
      return kWork(argument);
    };
    child = clone(to_the_end, map(kStack) + kStack, CLONE_VM | SIGCHLD, &shared);
    if (child < 0) std::abort();
  } else {
    thread = std::thread([&] {
      if (unshare(CLONE_FILES) != 0) std::abort();
      kWork(&shared);
    });
  }
  write(shared.memory, shared.bytes);
  shared.written = true;
  int status = 0;
  while (!shared.seen && (!cloned || waitpid(child, &status, WNOHANG) == 0)) {
    shared.wrong += wrong_in(shared.memory, shared.bytes);
  }
  if (!shared.seen) ++shared.wrong;
  if (thread.joinable()) thread.join();
  return shared.wrong + wrong_in(shared.memory, shared.bytes);
}

std::size_t use(std::string_view kind, std::size_t mebibytes) {
  if (kind == "hidden") return hidden(mebibytes);
  if (kind == "objects") return objects(mebibytes);
  return beside(mebibytes, kind == "cloned");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  std::printf("wrong: %zu\n", use(arguments[1], std::strtoul(arguments[2], nullptr, 10)));
  return 0;
}

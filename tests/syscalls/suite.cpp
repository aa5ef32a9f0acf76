#include "syscalls/suite.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

namespace suite {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kArea = std::size_t{8} << 20;
constexpr unsigned kSecondsPerCase = 60;

struct Case {
  const char* name;
  Run run;
  bool apart = false;
};

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

char* area = nullptr;
std::size_t used = 0;
char* other = nullptr;
std::size_t pressure = 0;
std::string line;
std::string scratch;
const char* self = nullptr;
volatile const char* running = "";

char* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) return static_cast<char*>(memory);
  std::perror("syscall_suite: no memory");
  std::exit(2);
}

// "64M" and the like.
std::size_t parse_size(const char* text) {
  char* end = nullptr;
  const auto number = std::strtoull(text, &end, 10);
  const std::size_t unit = *end == 'K' ? 1U << 10 : *end == 'M' ? 1U << 20 : *end == 'G' ? 1U << 30 : 1;
  if (end != text && (*end == '\0' || end[1] == '\0')) return number * unit;
  std::fprintf(stderr, "syscall_suite: '%s' is no size; write 64M\n", text);
  std::exit(2);
}

bool run(const Case& one) {
  running = one.name;
  line.clear();
  used = 0;
  bool good = true;
  alarm(kSecondsPerCase);
  try {
    one.run();
  } catch (const Failed& failed) {
    line = "FAILED: " + failed.why;
    good = false;
  } catch (const Skipped& skipped) {
    line = "skipped: " + skipped.why;
  }
  alarm(0);
  std::printf("%s: %s\n", one.name, line.c_str());
  std::fflush(stdout);
  return good;
}

bool run_apart(const Case& one) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(run(one) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

void too_long(int) {
  const char* texts[] = {const_cast<const char*>(running), ": FAILED: it hangs\n"};
  for (const char* text : texts)
    if (write(STDOUT_FILENO, text, std::strlen(text)) < 0) break;
  _exit(1);
}

}  // namespace

Register::Register(const char* name, Run run, bool apart) {
  cases().push_back({name, run, apart});
}

void result(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!line.empty()) line += "; ";
  line += text;
}

void check(bool condition, const char* what) {
  if (!condition) throw Failed{what};
}

long must(long value, const char* what) {
  if (value == -1) throw Failed{std::string(what) + ": " + std::strerror(errno)};
  return value;
}

long must_or_skip(long value, const char* what) {
  if (value == -1 && (errno == ENOSYS || errno == EPERM || errno == EOPNOTSUPP || errno == EACCES))
    throw Skipped{std::strerror(errno)};
  return must(value, what);
}

void evict() {
  const int before = errno;
  for (std::size_t at = 0; at < pressure; at += kPage) other[at] = static_cast<char>(other[at] + 1);
  if (pressure == 0) madvise(area, kArea, MADV_PAGEOUT);
  errno = before;
}

void* place_bytes(std::size_t bytes, std::size_t alignment) {
  const std::size_t in_first = std::max(std::min(bytes / 2, kPage) / alignment * alignment, alignment);
  const std::size_t pages = (bytes + kPage - 1) / kPage + 2;
  check(used + pages * kPage <= kArea, "the suite's area is full");
  char* memory = area + used + kPage - in_first;
  used += pages * kPage;
  std::memset(memory, 0, bytes);
  return memory;
}

char* place_string(const char* text) {
  char* memory = place<char>(std::strlen(text) + 1);
  std::strcpy(memory, text);
  return memory;
}

void fill(void* memory, std::size_t bytes, std::uint32_t seed) {
  auto* at = static_cast<unsigned char*>(memory);
  for (std::size_t i = 0; i < bytes; ++i) {
    seed = seed * 1664525 + 1013904223;
    at[i] = static_cast<unsigned char>(seed >> 24);
  }
}

std::uint32_t digest(const void* memory, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(memory);
  std::uint32_t hash = 2166136261;
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 16777619;
  return hash;
}

const std::string& folder() {
  return scratch;
}

char* place_path(const char* name) {
  return place_string((scratch + "/" + name).c_str());
}

int make_file(const char* name, std::size_t bytes, std::uint32_t seed) {
  const int fd = static_cast<int>(must(open(place_path(name), O_RDWR | O_CREAT | O_TRUNC, 0600), "open"));
  char* content = place<char>(bytes + 1);
  fill(content, bytes, seed);
  check(write(fd, content, bytes) == static_cast<ssize_t>(bytes), "write");
  must(lseek(fd, 0, SEEK_SET), "lseek");
  return fd;
}

Later::Later(Action action, void* argument) : action_(action), argument_(argument) {
  check(pthread_create(&thread_, nullptr, start, this) == 0, "pthread_create");
}

Later::~Later() {
  pthread_join(thread_, nullptr);
}

void* Later::start(void* which) {
  auto* later = static_cast<Later*>(which);
  usleep(20000);  // the caller is in its call by now; nothing is wrong if it is not
  evict();
  later->action_(later->argument_);
  return nullptr;
}

const char* program() {
  return self;
}

}  // namespace suite

int main(int argc, char** argv) {
  using namespace suite;
  self = argv[0];
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--list") {
      for (const auto& one : cases()) std::puts(one.name);
      return 0;
    }
    if (argument == "--echo") {  // what the cases that execute a program run: says what it was given
      for (int k = i + 1; k < argc; ++k) std::printf("%s\n", argv[k]);
      std::printf("%s\n", std::getenv("SUITE") == nullptr ? "" : std::getenv("SUITE"));
      return argc;
    }
    if (argument == "--ignored") {  // says by its status which signals it began with ignored
      const bool bus = std::signal(SIGBUS, SIG_DFL) == SIG_IGN;
      return (bus ? 1 : 0) + (std::signal(SIGSYS, SIG_DFL) == SIG_IGN ? 2 : 0);
    }
    if (argument == "--pressure" && i + 1 < argc) {
      pressure = parse_size(argv[++i]);
    } else if (argument[0] == '-') {
      std::fprintf(stderr, "use: syscall_suite [--list] [--pressure SIZE] [NAME...]\n");
      return 2;
    } else {
      wanted.push_back(argument);
    }
  }
  area = map(kArea);
  if (pressure > 0) other = map(pressure);
  std::string pattern = (std::filesystem::temp_directory_path() / "syscall_suite.XXXXXX").string();
  scratch = mkdtemp(pattern.data()) == nullptr ? "." : pattern;
  std::signal(SIGALRM, too_long);
  int failed = 0, done = 0;
  for (const auto& one : cases()) {
    bool chosen = wanted.empty();
    for (const auto& name : wanted) chosen = chosen || name == one.name;
    if (!chosen) continue;
    ++done;
    if (!(one.apart ? run_apart(one) : run(one))) ++failed;
  }
  std::error_code ignored;
  std::filesystem::remove_all(pattern, ignored);
  if (done == 0) std::fprintf(stderr, "syscall_suite: no such case; see --list\n");
  return failed > 0 ? 1 : done == 0 ? 2 : 0;
}

// A suite of system calls whose arguments lie across page boundaries, in memory that is pushed out between preparing
// the call and making it. Each case prints one line that depends on nothing but what the calls did: the same output
// with and without comex is the test.
//
//   CASE(read_pipe) {
//     char* buffer = place<char>(8192);              // across pages, as everything from place()
//     const long n = EVICTED(read(fd, buffer, 8192));  // fails the case if the call fails
//     result("%ld bytes, digest %08x", n, digest(buffer, n));
//   }
//
// A plain program, without comex or a test framework in it. Cases run one after the other, each with a time-out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

namespace suite {

using Run = void (*)();

struct Register {
  Register(const char* name, Run run, bool apart = false);
};

// Thrown to leave a case; the line says why.
struct Failed {
  std::string why;
};
struct Skipped {
  std::string why;
};

// Adds to the line of the case.
[[gnu::format(printf, 1, 2)]] void result(const char* format, ...);
void check(bool condition, const char* what);
// The value of a call that must not fail; errno says why it did.
long must(long value, const char* what);
// As must(), but a kernel without the call, or without the right to make it, skips the case.
long must_or_skip(long value, const char* what);

// Pushes out what place() gave: walks over --pressure SIZE of other memory, or asks the kernel nicely if there is none.
void evict();

// Memory of the suite's own area that crosses the end of a page in its middle, as far as alignment lets it.
void* place_bytes(std::size_t bytes, std::size_t alignment);
template <typename T>
T* place(std::size_t count = 1) {
  constexpr std::size_t kBytes = sizeof(T);  // NOLINT(bugprone-sizeof-expression): T may be a pointer
  return new (place_bytes(count * kBytes, alignof(T))) T[count]();
}
char* place_string(const char* text);

void fill(void* memory, std::size_t bytes, std::uint32_t seed);
std::uint32_t digest(const void* memory, std::size_t bytes);

// A folder for the case's files, which goes when the suite ends; "folder()/name" placed as all arguments are.
const std::string& folder();
char* place_path(const char* name);
// A new file with `bytes` of fill(), read and write.
int make_file(const char* name, std::size_t bytes, std::uint32_t seed);

// Runs in another thread what lets a blocked call go on, after pushing out the caller's memory once more.
class Later {
 public:
  using Action = void (*)(void*);
  Later(Action action, void* argument);
  ~Later();
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;

 private:
  static void* start(void* which);
  Action action_;
  void* argument_;
  unsigned long thread_ = 0;
};

// How the suite was called, for cases that run it again.
const char* program();

}  // namespace suite

#define CASE(name)                                           \
  static void name();                                        \
  static const suite::Register register_##name(#name, name); \
  static void name()

// In a process of its own: what it does changes how calls are served from then on.
#define CASE_APART(name)                                           \
  static void name();                                              \
  static const suite::Register register_##name(#name, name, true); \
  static void name()

#define EVICTED(call) (suite::evict(), suite::must((long)(call), #call))
#define EVICTED_OR_SKIP(call) (suite::evict(), suite::must_or_skip((long)(call), #call))

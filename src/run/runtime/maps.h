// What the kernel says is mapped, and what of it is there, without libc's streams and without allocating.
//
// Thread safety: an object is for one thread. Fault path: bare system calls.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "pager/page.h"

namespace comex::runtime {

// A mapping at a time.
class Maps {
 public:
  struct Mapping {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool private_data = false;     // rw-p, of no file
    bool private_reserve = false;  // ---p, of no file
    bool heap = false;
    bool aio = false;  // the completions of AIO
    bool locked = false;
  };

  // The list that says what is locked takes the kernel long to make: it is asked for only if something is.
  Maps() noexcept : locks_(anything_locked()), fd_(open_list(locks_ ? "/proc/self/smaps" : "/proc/self/maps")) {}
  ~Maps() {
    if (fd_ >= 0) ::close(fd_);
  }
  Maps(const Maps&) = delete;
  Maps& operator=(const Maps&) = delete;

  bool next(Mapping& mapping) noexcept {
    char line[256];
    if (!read_line(line, sizeof line)) return false;
    const char* at = line;
    mapping.begin = number(at, 16);
    mapping.end = number(++at, 16);
    const char* const rights = ++at;
    const bool data = starts(rights, "rw-p");
    const bool reserve = starts(rights, "---p");
    at += 4;
    for (int field = 0; field < 2; ++field) {  // offset, device
      while (*at == ' ') ++at;
      while (*at != ' ' && *at != 0) ++at;
    }
    while (*at == ' ') ++at;
    const bool no_file = number(at, 10) == 0;
    while (*at == ' ') ++at;
    mapping.heap = starts(at, "[heap]");
    mapping.aio = starts(at, "/[aio]");
    const bool nameless = no_file && (*at == 0 || mapping.heap);
    mapping.private_data = data && nameless;
    mapping.private_reserve = reserve && nameless;
    mapping.locked = locks_ && is_locked();
    return true;
  }

 private:
  static int open_list(const char* path) noexcept { return ::open(path, O_RDONLY | O_CLOEXEC); }
  static bool anything_locked() noexcept {
    const int fd = open_list("/proc/self/status");
    char text[4096];
    const ssize_t got = fd < 0 ? 0 : ::read(fd, text, sizeof text - 1);
    if (fd >= 0) ::close(fd);
    text[got > 0 ? got : 0] = 0;
    for (const char* at = text; *at != 0; ++at) {
      if (!starts(at, "\nVmLck:")) continue;
      at += 7;
      while (*at == ' ' || *at == '\t') ++at;
      return number(at, 10) != 0;
    }
    return false;
  }
  // Reads on to the last line about the mapping.
  bool is_locked() noexcept {
    char line[256];
    while (read_line(line, sizeof line)) {
      if (!starts(line, "VmFlags:")) continue;
      for (const char* at = line; *at != 0; ++at)
        if (starts(at, " lo")) return true;
      return false;
    }
    return false;
  }
  static bool starts(const char* text, const char* with) noexcept {
    while (*with != 0 && *text == *with) ++text, ++with;
    return *with == 0;
  }
  static std::uint64_t number(const char*& at, unsigned base) noexcept {
    std::uint64_t value = 0;
    for (;; ++at) {
      const char c = *at;
      unsigned digit = base;
      if (c >= '0' && c <= '9') digit = static_cast<unsigned>(c - '0');
      if (c >= 'a' && c <= 'f') digit = static_cast<unsigned>(c - 'a' + 10);
      if (digit >= base) return value;
      value = value * base + digit;
    }
  }
  // Cuts what does not fit: names of files are of no interest.
  bool read_line(char* line, std::size_t size) noexcept {
    std::size_t length = 0;
    for (;;) {
      if (begin_ == end_) {
        const ssize_t got = fd_ < 0 ? 0 : ::read(fd_, buffer_, sizeof buffer_);
        if (got <= 0) return false;
        begin_ = 0;
        end_ = static_cast<std::size_t>(got);
      }
      const char c = buffer_[begin_++];
      if (c == '\n') break;
      if (length + 1 < size) line[length++] = c;
    }
    line[length] = 0;
    return true;
  }

  const bool locks_;
  const int fd_;
  char buffer_[4096];
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

// Calls f(PageRun) for the pages that are there, or in the kernel's swap.
template <typename F>
void for_each_present(PageRun pages, F&& f) noexcept {
  constexpr std::uint64_t kThere = std::uint64_t{3} << 62;
  const int fd = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return f(pages);  // cannot tell: those that are not there do no harm
  std::array<std::uint64_t, 512> entries;
  while (pages.count > 0) {
    const std::size_t wanted = std::min<std::uint64_t>(entries.size(), pages.count);
    const auto offset = static_cast<off_t>(pages.first.value * sizeof(std::uint64_t));
    const ssize_t got = ::pread(fd, entries.data(), wanted * sizeof(std::uint64_t), offset);
    if (got <= 0) break;
    const auto count = static_cast<std::size_t>(got) / sizeof(std::uint64_t);
    for (std::size_t i = 0; i < count;) {
      std::size_t end = i;
      while (end < count && (entries[end] & kThere) != 0) ++end;
      if (end > i) f(PageRun{pages.first + i, end - i});
      i = end + 1;
    }
    pages = PageRun{pages.first + count, pages.count - count};
  }
  ::close(fd);
}

}  // namespace comex::runtime

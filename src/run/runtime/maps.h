// What the kernel says is mapped, and what of it is there, without libc's streams and without allocating.
//
// Thread safety: an object is for one thread. Fault path: bare system calls.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "pager/page.h"

namespace comex::runtime {

// How much of the memory is locked, in kB. Of this thread, as everywhere here: /proc/self is the first one, and empty
// if that has ended.
inline std::uint64_t locked_kilobytes() noexcept {
  constexpr char kName[] = "\nVmLck:";
  const int fd = ::open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
  char text[4096];
  const ssize_t got = fd < 0 ? 0 : ::read(fd, text, sizeof text - 1);
  if (fd >= 0) ::close(fd);
  text[got > 0 ? got : 0] = 0;
  const char* at = std::strstr(text, kName);
  return at == nullptr ? 0 : std::strtoull(at + sizeof kName - 1, nullptr, 10);
}

// Whether the kernel locks what is mapped from now on (MCL_FUTURE), which it tells nobody: by a page that is mapped, to
// see whether it is counted. REQUIRES: nobody else maps or locks anything meanwhile.
inline bool locks_what_comes() noexcept {
  void* const page = ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return true;  // nothing more may be locked, say
  const std::uint64_t with = locked_kilobytes();
  ::munmap(page, kPageSize);
  return with != 0 && with != locked_kilobytes();
}

// A mapping at a time.
class Maps {
 public:
  struct Mapping {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool private_data = false;     // rw-p, of no file
    bool private_reserve = false;  // ---p or r--p, of no file
    bool heap = false;
    bool aio = false;  // the completions of AIO
    bool locked = false;
    bool wiped = false;  // in children (MADV_WIPEONFORK)
  };

  // The list that says what is locked or wiped takes the kernel long to make: it is asked for only if something is
  // locked, or may be `wiped`.
  explicit Maps(bool wiped = false) noexcept
      : flags_(wiped || locked_kilobytes() != 0),
        fd_(open_list(flags_ ? "/proc/thread-self/smaps" : "/proc/thread-self/maps")) {}
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
    const bool reserve = starts(rights, "---p") || starts(rights, "r--p");
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
    const bool nameless = no_file && (*at == 0 || mapping.heap || starts(at, "[anon:"));  // or named by the program
    mapping.private_data = data && nameless;
    mapping.private_reserve = reserve && nameless;
    mapping.locked = mapping.wiped = false;
    if (flags_) read_flags(mapping);
    return true;
  }

 private:
  static int open_list(const char* path) noexcept { return ::open(path, O_RDONLY | O_CLOEXEC); }
  // Reads on to the last line about the mapping.
  void read_flags(Mapping& mapping) noexcept {
    char line[256];
    do {
      if (!read_line(line, sizeof line)) return;
    } while (!starts(line, "VmFlags:"));
    for (const char* at = line; *at != 0; ++at) {
      mapping.locked = mapping.locked || starts(at, " lo");
      mapping.wiped = mapping.wiped || starts(at, " wf");
    }
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

  const bool flags_;
  const int fd_;
  char buffer_[4096];
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

// Which pages are there. A process that has given up its rights (setuid) may not read its own pagemap; mincore() does
// not see what is in the kernel's swap, and that then stays where it is.
class Presence {
 public:
  static constexpr std::size_t kMost = 512;

  Presence() noexcept : pagemap_(::open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  ~Presence() {
    if (pagemap_ >= 0) ::close(pagemap_);
  }
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  // Says of the first of these pages, kMost at most, whether they are there. Returns of how many; 0 if it cannot tell.
  std::size_t look(PageRun pages, std::array<bool, kMost>& there) const noexcept {
    const std::size_t wanted = std::min<std::uint64_t>(kMost, pages.count);
    return pagemap_ >= 0 ? read_pagemap(pages.first, wanted, there) : ask_kernel(pages.first, wanted, there);
  }

 private:
  std::size_t read_pagemap(PageNo first, std::size_t wanted, std::array<bool, kMost>& there) const noexcept {
    constexpr std::uint64_t kThere = std::uint64_t{3} << 62;  // present, or swapped
    std::array<std::uint64_t, kMost> entries;
    const auto offset = static_cast<off_t>(first.value * sizeof(std::uint64_t));
    const ssize_t got = ::pread(pagemap_, entries.data(), wanted * sizeof(std::uint64_t), offset);
    const std::size_t count = got <= 0 ? 0 : static_cast<std::size_t>(got) / sizeof(std::uint64_t);
    for (std::size_t i = 0; i < count; ++i) there[i] = (entries[i] & kThere) != 0;
    return count;
  }
  static std::size_t ask_kernel(PageNo first, std::size_t wanted, std::array<bool, kMost>& there) noexcept {
    std::array<unsigned char, kMost> resident;
    if (::mincore(first.address(), wanted * kPageSize, resident.data()) != 0) return 0;
    for (std::size_t i = 0; i < wanted; ++i) there[i] = (resident[i] & 1) != 0;
    return wanted;
  }

  const int pagemap_;
};

// Calls f(PageRun) for the pages that are there. One that is not must not be named: whoever touches it gets a fault
// that nobody can explain.
template <typename F>
void for_each_present(PageRun pages, F&& f) noexcept {
  const Presence presence;
  std::array<bool, Presence::kMost> there;
  while (pages.count > 0) {
    const std::size_t count = presence.look(pages, there);
    if (count == 0) return;
    for (std::size_t i = 0; i < count;) {
      std::size_t end = i;
      while (end < count && there[end]) ++end;
      if (end > i) f(PageRun{pages.first + i, end - i});
      i = end + 1;
    }
    pages = PageRun{pages.first + count, pages.count - count};
  }
}

}  // namespace comex::runtime

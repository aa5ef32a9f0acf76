// The read buffer: copies of remote pages that nobody has asked for yet, brought along with one that was.
//
// A page is here only while its entry says remote, and its frame has the same bytes: whoever changes the entry has it
// locked, and takes or drops the copy first. A page that is used leaves at once; of those that are not, the first to
// come is the first to go.
//
// Small sets, each with a lock of its own that is held for the copying of a page. Neighbours are in different sets.
//
// Thread safety: all functions from any thread. Fault path: all of them; nothing is allocated, no lock is held across
// I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/mutex.h"
#include "pager/memory.h"
#include "pager/page.h"

namespace comex {

class ReadBuffer {
 public:
  static constexpr std::uint32_t kPages = 4096;  // to start with

  // For about `pages` pages. With no memory to be had it holds none.
  ReadBuffer(Memory& memory, std::uint32_t pages) noexcept;

  // REQUIRES of each: the page's entry is locked by this thread.
  void put(PageNo page, const std::byte* bytes) noexcept;
  // False if it is not here.
  bool take(PageNo page, std::byte* to) noexcept;
  void drop(PageNo page) noexcept { (void)take(page, nullptr); }
  [[nodiscard]] bool has(PageNo page) noexcept;

 private:
  static constexpr std::uint32_t kWays = 4;
  static constexpr std::uint64_t kNobody = 0;  // page 0 is nobody's: the kernel does not map it

  struct Set {
    Mutex mutex;             // guards all below, and the pages of this set
    std::uint32_t next = 0;  // to be replaced
    std::array<std::uint64_t, kWays> pages{};
  };

  [[nodiscard]] Set& set_of(PageNo page) noexcept { return sets_[page.value % count_]; }
  [[nodiscard]] std::byte* bytes_of(const Set& set, std::size_t way) noexcept {
    return memory_ + (static_cast<std::size_t>(&set - sets_) * kWays + way) * kPageSize;
  }
  // kWays if it is not there.
  static std::size_t way_of(const Set& set, PageNo page) noexcept;

  std::uint32_t count_ = 0;  // of sets
  Set* sets_ = nullptr;      // zeros are an empty set
  std::byte* memory_ = nullptr;
};

}  // namespace comex

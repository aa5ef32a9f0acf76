// Pages of a program and blocks of them, by number.
//
// A block is 64 pages that are neighbours in the program's address space. It is what eviction takes and staging sends:
// neighbours that leave together get neighbouring frames, and can come back in one read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "pool/batch.h"

namespace comex {

inline constexpr std::uint32_t kBlockPages = 64;
inline constexpr unsigned kBlockShift = 6;
static_assert(kBlockPages == 1U << kBlockShift && kBlockPages == kBatchPages);

struct PageNo {
  std::uint64_t value = 0;

  static PageNo of(const void* address) { return PageNo{reinterpret_cast<std::uintptr_t>(address) >> kPageShift}; }
  [[nodiscard]] std::byte* address() const { return reinterpret_cast<std::byte*>(value << kPageShift); }

  friend constexpr PageNo operator+(PageNo page, std::uint64_t n) { return PageNo{page.value + n}; }
  friend constexpr std::uint64_t operator-(PageNo a, PageNo b) { return a.value - b.value; }
  friend constexpr auto operator<=>(PageNo, PageNo) = default;
};

struct BlockNo {
  std::uint32_t value = 0;

  static constexpr BlockNo of(PageNo page) { return BlockNo{static_cast<std::uint32_t>(page.value >> kBlockShift)}; }
  [[nodiscard]] constexpr PageNo first() const { return PageNo{std::uint64_t{value} << kBlockShift}; }
  friend constexpr bool operator==(BlockNo, BlockNo) = default;
};

// Contiguous pages.
struct PageRun {
  PageNo first;
  std::uint64_t count = 0;

  // Those that have some of these bytes; none, if there are no bytes, or they go beyond the last address.
  static constexpr PageRun of(std::uint64_t address, std::uint64_t bytes) {
    const PageNo first{address >> kPageShift};
    if (bytes == 0 || address + (bytes - 1) < address) return PageRun{first, 0};
    return PageRun{first, ((address + (bytes - 1)) >> kPageShift) - first.value + 1};
  }
  [[nodiscard]] constexpr PageNo end() const { return first + count; }
  friend constexpr bool operator==(const PageRun&, const PageRun&) = default;
};

}  // namespace comex

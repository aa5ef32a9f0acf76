// The runtime's own memory inside the program's process: one range of addresses, handed out from the bottom, never
// given back. One range, so that what is ours can be told from what is the program's; local memory is used only where
// it is touched.
//
// Thread safety: any thread. Fault path: take() and owns().
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/expected.h"
#include "base/own_place.h"
#include "base/units.h"

namespace comex {

class OwnMemory {
 public:
  // The page table of 8 TiB of program, and all the rest.
  static constexpr std::size_t kReserve = std::size_t{16} << 30;

  Errc reserve() noexcept {
    void* range = mmap(OwnPlace::take(kReserve), kReserve, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return Errc::no_memory;
    // A page here and there is what is used: huge ones would make it many times more.
    madvise(range, kReserve, MADV_NOHUGEPAGE);
    madvise(range, kReserve, MADV_DONTDUMP);
    base_ = static_cast<std::byte*>(range);
    return Errc::ok;
  }
  // Zeroed, whole pages; nullptr if there is no more.
  std::byte* take(std::size_t bytes) noexcept {
    bytes = (bytes + kPageSize - 1) / kPageSize * kPageSize;
    const std::size_t at = used_.fetch_add(bytes, std::memory_order_relaxed);
    return base_ == nullptr || at + bytes > kReserve ? nullptr : base_ + at;
  }
  [[nodiscard]] bool is_reserved() const noexcept { return base_ != nullptr; }
  [[nodiscard]] bool owns(std::uint64_t begin, std::uint64_t end) const noexcept {
    const auto base = reinterpret_cast<std::uint64_t>(base_);
    return begin < base + kReserve && base < end;
  }

 private:
  std::byte* base_ = nullptr;
  std::atomic<std::size_t> used_{0};
};

}  // namespace comex

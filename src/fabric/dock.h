// Memory of a process in which pages are on their way, and which whoever moves pages for it has mapped as well: they go
// straight to and from there. See lane_desk.h, and "RDMA and programs" in docs/design-notes.md.
//
// Addresses are handed out from the bottom and never come back; what lies behind them may change. Pages that the other
// end may still write to although their transfer has been given up are parted with: other memory takes their place,
// with the same bytes. A forked child has none of its parent's: it gets memory of its own at the same addresses.
//
// Thread safety: take(), find() and part() from any thread; open() and renew() while nobody else is here.
// Fault path: take(), find(), part(). Part of the code inside programs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/expected.h"
#include "base/fd.h"
#include "base/units.h"

namespace comex {

class Dock {
 public:
  static constexpr std::uint32_t kMostPages = 1U << 14;  // 64 MiB
  static constexpr std::size_t kMostBytes = std::size_t{kMostPages} << kPageShift;

  Dock() = default;
  ~Dock();
  Dock(const Dock&) = delete;
  Dock& operator=(const Dock&) = delete;

  // A file to be one: zeros, of a size that nobody can change. Empty: it cannot be had.
  static Fd make_file(std::size_t bytes) noexcept;
  // REQUIRES: not open; `file` is from make_file(bytes), of whole pages, at most kMostBytes.
  Errc open(Fd file, std::size_t bytes) noexcept;
  // In a forked child: zeros. Without a file the addresses are good for everything but find().
  // REQUIRES: open; `file` as for open().
  Errc renew(Fd file) noexcept;

  [[nodiscard]] bool is_open() const noexcept { return base_ != nullptr; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  // For the other end; -1: there is none.
  [[nodiscard]] int file() const noexcept { return file_.get(); }
  // What the other end may lock.
  [[nodiscard]] std::uint32_t shared_pages() const noexcept {
    return file_ ? static_cast<std::uint32_t>(bytes_ >> kPageShift) : 0;
  }

  // Whole pages; nullptr if there are no more.
  std::byte* take(std::size_t bytes) noexcept;
  // The number of the first of these pages; nothing if not all of them are what the other end sees there.
  [[nodiscard]] std::optional<std::uint32_t> find(const std::byte* memory, std::uint32_t pages) const noexcept;
  // From now on nobody else can touch what is at these addresses. False: there is no memory for that.
  // REQUIRES: find() has found them once; nobody writes there meanwhile, but reading does no harm.
  [[nodiscard]] bool part(std::byte* memory, std::uint32_t pages) noexcept;

 private:
  static constexpr std::uint32_t kBits = 64;
  using Word = std::atomic<std::uint64_t>;

  [[nodiscard]] std::optional<std::uint32_t> number_of(const std::byte* memory, std::uint32_t pages) const noexcept;
  [[nodiscard]] bool map(int file, void* at, int how) noexcept;

  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  Fd file_;
  std::atomic<std::size_t> used_{0};
  std::atomic<bool> parted_{false};               // any
  std::array<Word, kMostPages / kBits> parts_{};  // which
};

}  // namespace comex

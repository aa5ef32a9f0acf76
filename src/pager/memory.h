// What the pager does to the memory of a program. The runtime does it with userfaultfd; tests with arrays.
//
// Thread safety: all functions from any thread; for one page, by one thread at a time (the pager's busy bit).
// Fault path: all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "pager/block_runs.h"

namespace comex {

// Pages of a block that nobody can change any more.
struct Seized {
  BlockNo block;
  Slots pages = 0;
  Slots moved = 0;             // of those, and of what is leaving: they are not where they were
  Slots fenced = 0;            // of what is beside: guarded as well
  std::byte* shelf = nullptr;  // where to, if they were moved together
  std::array<const std::byte*, kBlockPages> bytes{};
};

class Memory {
 public:
  virtual ~Memory() = default;

  // Puts pages where there are none, with the bytes at `from`. Guarded: a write to them is a fault; all or nothing.
  // Those that are not may have been written by the time that the rest is refused: they stay. Errc::invalid if the
  // program has no such memory any more.
  virtual Errc place(PageRun pages, const std::byte* from, bool guarded) noexcept = 0;
  // Where one is already it stays: touched after it was mapped, and before the kernel knew that it is ours.
  virtual Errc place_zeros(PageRun pages) noexcept = 0;
  // When this returns, no thread can write to those of the pages that are there without a fault.
  virtual Errc guard(PageRun pages) noexcept = 0;
  virtual Errc unguard(PageRun pages) noexcept = 0;
  // Takes the pages away: the next touch is a fault. Those that are not there do not matter.
  virtual Errc discard(std::span<const PageRun> pages) noexcept = 0;
  // Seizes pages of a block that are there: nobody can change those in the answer, neither the program nor the kernel
  // behind its back, which may have pinned a page and write to it without looking at the page table; such a page is not
  // in the answer. `locked`: pages of the block that nobody else puts there or takes away meanwhile. Those of them that
  // are there are wanted, or `leaving`: guarded already, and to be discarded next. These may be moved with the others,
  // for one run is one shootdown. `beside`: there, and nobody else changes that, but they stay; they may be guarded.
  virtual Seized seize(BlockNo block, Slots locked, Slots wanted, Slots leaving, Slots beside) noexcept;
  // The end of it: `back` is the program's again, the rest, as far as it was moved, is thrown away.
  virtual void release(const Seized& seized, Slots back) noexcept;
  // Reads a page that is there although the program may not. Errc::unsupported, always, if that cannot be done.
  virtual Errc peek(PageNo page, std::byte* to) noexcept;
  [[nodiscard]] virtual bool can_peek() const noexcept { return false; }
  // To read a page that is there, and that the program may read.
  [[nodiscard]] virtual const std::byte* bytes(PageNo page) const noexcept = 0;
  // Zeroed memory for the pager itself, never given back; nullptr if there is none.
  virtual std::byte* own(std::size_t bytes) noexcept = 0;
};

}  // namespace comex

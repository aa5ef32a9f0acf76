// The memory of this process, through userfaultfd.
//
// Registered memory reports two kinds of faults: a touch of a page that is not there, and a write to a guarded one. How
// they are reported was chosen at opening: as a SIGBUS to the thread that touched (inline), or as messages to be read
// (message), while whoever touched waits.
//
// Thread safety: all functions from any thread. Fault path: everything but open(): bare system calls, no libc state but
// errno.
#pragma once

#include <cstdint>

#include "base/expected.h"
#include "pager/memory.h"
#include "run/delivery.h"
#include "run/own_memory.h"

namespace comex {

class UffdMemory final : public Memory {
 public:
  // Somebody waits for a page, to read it or to write to it.
  struct Touch {
    PageNo page;
    bool write = false;
  };

  explicit constexpr UffdMemory(OwnMemory& own) : own_(own) {}

  // denied: no right to userfaultfd; unsupported: not in this kernel.
  Errc open(Delivery delivery) noexcept;

  // In the child of a fork: what was opened is the parent's.
  void forget_parent() noexcept;

  // Faults on these addresses are ours from now on. REQUIRES: private anonymous memory, mapped.
  Errc enlist(PageRun pages) noexcept;
  Errc dismiss(PageRun pages) noexcept;

  Errc place(PageRun pages, const std::byte* from, bool guarded) noexcept override;
  Errc place_zeros(PageRun pages) noexcept override;
  Errc guard(PageRun pages) noexcept override;
  Errc unguard(PageRun pages) noexcept override;
  Errc discard(std::span<const PageRun> pages) noexcept override;
  [[nodiscard]] const std::byte* bytes(PageNo page) const noexcept override { return page.address(); }
  std::byte* own(std::size_t bytes) noexcept override { return own_.take(bytes); }

  [[nodiscard]] Delivery delivery() const noexcept { return delivery_; }

  // --- message delivery ---
  // Returns when there may be a touch to take; spuriously too.
  void wait_for_touch() const noexcept;
  // Errc::busy: there is none now. Any other error is for ever.
  Errc next_touch(Touch* touch) noexcept;
  // Lets those look again who wait for the page. place() and unguard() do that where they change something.
  void wake(PageNo page) noexcept;

 private:
  Errc protect(PageRun pages, std::uint64_t mode) noexcept;

  OwnMemory& own_;
  int uffd_ = -1;
  Delivery delivery_ = Delivery::inline_signal;
  int self_ = -1;  // pidfd of this process for process_madvise; -1: this kernel does not do it
};

}  // namespace comex

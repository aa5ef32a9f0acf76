// The memory of this process, through userfaultfd.
//
// Registered memory reports two kinds of faults: a touch of a page that is not there, and a write to a guarded one. How
// they are reported was chosen at opening: as a SIGBUS to the thread that touched (inline), or as messages to be read
// (message), while whoever touched waits.
//
// Thread safety: all functions from any thread. Fault path: everything but open(): bare system calls, no libc state but
// errno.
#pragma once

#include <atomic>
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
    std::uint32_t thread = 0;  // that touched
  };

  explicit constexpr UffdMemory(OwnMemory& own) : own_(own) {}

  // denied: no right to userfaultfd; unsupported: not in this kernel. `old_kernel`: uses nothing that Linux 6.1 has
  // not.
  Errc open(Delivery delivery, bool old_kernel = false) noexcept;

  // Also in the child of a fork, where what was opened is the parent's.
  void close() noexcept;

  // Takes the place of this one, which is closed. REQUIRES: all that was enlisted here was dismissed, and enlisted
  // there.
  void become(UffdMemory& next) noexcept;

  // Faults on these addresses are ours from now on. REQUIRES: private anonymous memory, mapped.
  Errc enlist(PageRun pages) noexcept;
  Errc dismiss(PageRun pages) noexcept;

  Errc place(PageRun pages, const std::byte* from, bool guarded) noexcept override;
  Errc place_zeros(PageRun pages) noexcept override;
  Errc guard(PageRun pages) noexcept override;
  Errc unguard(PageRun pages) noexcept override;
  Errc discard(std::span<const PageRun> pages) noexcept override;
  Seized seize(BlockNo block, Slots locked, Slots wanted, Slots leaving, Slots beside) noexcept override;
  void release(const Seized& seized, Slots back) noexcept override;
  Errc peek(PageNo page, std::byte* to) noexcept override;
  [[nodiscard]] bool can_peek() const noexcept override { return through_ >= 0; }
  [[nodiscard]] const std::byte* bytes(PageNo page) const noexcept override { return page.address(); }
  std::byte* own(std::size_t bytes) noexcept override { return own_.take(bytes); }

  // Whether seize() can leave out what the kernel has pinned; otherwise nothing may be seized that may be pinned.
  [[nodiscard]] bool sees_pins() const noexcept { return shelves_ != nullptr; }
  // Whether it always does: under message delivery, and once it was told to. Otherwise only where that costs nothing:
  // all that the kernel pins is known to the caller then.
  [[nodiscard]] bool expects_pins() const noexcept { return expects_pins_.load(std::memory_order_seq_cst); }
  void expect_pins() noexcept { expects_pins_.store(true, std::memory_order_seq_cst); }
  [[nodiscard]] Delivery delivery() const noexcept { return delivery_; }

  // --- message delivery ---
  // Readable when there is a touch to take.
  [[nodiscard]] int fd() const noexcept { return uffd_; }
  // Errc::busy: there is none now. Any other error is for ever.
  Errc next_touch(Touch* touch) noexcept;
  // Lets those look again who wait for the page. place() and unguard() do that where they change something.
  void wake(PageNo page) noexcept;

 private:
  // Addresses for the pages of a block, where they go when they are seized.
  static constexpr std::uint32_t kShelves = 16;

  Errc open_userfaultfd(Delivery delivery, bool old_kernel) noexcept;
  Errc protect(PageRun pages, std::uint64_t mode) noexcept;
  void set_up_shelves() noexcept;
  std::byte* take_shelf() noexcept;
  void clear_shelf(std::byte* shelf) noexcept;
  // How many of the pages, from the first on, are there now and not at `from`. `error`: why not all.
  std::uint64_t move(PageRun from, std::byte* to, std::uint64_t mode, int* error) noexcept;
  static std::uint64_t reached(std::byte* from, std::uint64_t most) noexcept;
  void seize_run(PageRun run, Slots wanted, Seized& seized) noexcept;

  OwnMemory& own_;
  int uffd_ = -1;
  Delivery delivery_ = Delivery::inline_signal;
  bool moves_ = false;  // whether this kernel moves pages and tells of pins (Linux 6.8)
  std::atomic<bool> expects_pins_{false};
  std::byte* shelves_ = nullptr;
  std::atomic<std::uint32_t> shelves_taken_{0};  // a bit each
  int self_ = -1;     // pidfd of this process for process_madvise; -1: this kernel does not do it
  int through_ = -1;  // its memory as a file, which reads past what the program may; -1: not to be had, or does not
};

}  // namespace comex

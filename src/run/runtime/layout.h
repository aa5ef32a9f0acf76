// What of the program's memory is adopted, and the system calls that change it.
//
// Adopted is private anonymous memory that the program may write: mappings of some size, or beside others, the brk
// heap, what becomes writable of a reservation. Left alone are stacks, memory that may be executed, shared, locked or
// huge, small mappings that are alone, and what is the runtime's own.
//
// Thread safety: the system calls from any thread; they are served one after another, as the kernel does. begin() once.
// Fault path: yes; each call returns what the kernel would, -errno included.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/mutex.h"
#include "pager/page.h"
#include "run/runtime/intervals.h"
#include "run/runtime/world.h"
#include "run/uffd_memory.h"

namespace comex::runtime {

class Layout {
 public:
  // Adopts what there is.
  void begin(const Standing* threads) noexcept;
  // Adopts nothing, then or later.
  void begin_with_nothing() noexcept;
  // Before that: there may be memory that children are to find empty.
  void expect_wiped() noexcept { may_be_wiped_.store(true, std::memory_order_relaxed); }

  // In the child of a fork, where the kernel knows nothing of what is adopted.
  void enlist_again() noexcept;

  // All that is adopted goes to `next`, which takes the place of the process's memory. REQUIRES: no other thread of the
  // program runs, and nobody is inside the crossing.
  void hand_over(UffdMemory& next) noexcept;

  std::int64_t map(std::uint64_t address, std::uint64_t length, std::uint64_t protection, std::uint64_t flags,
                   std::uint64_t fd, std::uint64_t offset) noexcept;
  std::int64_t unmap(std::uint64_t address, std::uint64_t length) noexcept;
  std::int64_t remap(std::uint64_t address, std::uint64_t length, std::uint64_t new_length, std::uint64_t flags,
                     std::uint64_t new_address) noexcept;
  std::int64_t protect(std::uint64_t number, std::uint64_t address, std::uint64_t length, std::uint64_t protection,
                       std::uint64_t key) noexcept;
  std::int64_t advise(std::uint64_t address, std::uint64_t length, std::uint64_t advice) noexcept;
  // process_madvise; nothing if it is for the kernel.
  std::optional<std::int64_t> advise_pieces(std::uint64_t pidfd, std::uint64_t pieces, std::uint64_t count,
                                            std::uint64_t advice, std::uint64_t flags) noexcept;
  std::int64_t attach(std::uint64_t id, std::uint64_t address, std::uint64_t flags) noexcept;
  std::int64_t set_break(std::uint64_t address) noexcept;
  // The kernel keeps addresses in it: it must stay where it is.
  void leave_alone(std::uint64_t begin, std::uint64_t end) noexcept;
  // All there is, and whatever will come. False if that was so already.
  bool leave_everything_alone() noexcept;
  [[nodiscard]] bool leaves_everything() const noexcept { return !adopts_.load(std::memory_order_relaxed); }
  std::int64_t lock(std::uint64_t number, std::uint64_t address, std::uint64_t length, std::uint64_t flags) noexcept;
  // mlockall and munlockall. REQUIRES: the caller is not inside the crossing.
  std::int64_t lock_all(std::uint64_t flags) noexcept;
  std::int64_t unlock_all() noexcept;
  // Waits for the call that is under way. Returns how many there were, so far, that took adopted memory away.
  std::uint64_t losses() noexcept;

 private:
  static constexpr std::uint64_t kSmallest = 64 << 10;  // of a mapping that is worth it

  static PageRun pages_of(std::uint64_t begin, std::uint64_t end) noexcept;
  // False if it is not adopted: then it is the kernel's.
  bool adopt(std::uint64_t begin, std::uint64_t end) noexcept;
  bool adopt_here(std::uint64_t begin, std::uint64_t end) noexcept;
  void adopt_grown(std::uint64_t begin, std::uint64_t end) noexcept;
  // With what is in it already.
  void adopt_used(std::uint64_t begin, std::uint64_t end) noexcept;
  // A small mapping that was `old` is somewhere else, or of another size.
  void resized_small(Interval old, Interval now, bool may_move) noexcept;
  // The same for memory in use, but for what threads stand on.
  void take_over(std::uint64_t begin, std::uint64_t end, const Standing* threads) noexcept;
  void forget(std::uint64_t begin, std::uint64_t end) noexcept;
  // It is not adopted, nor will it be.
  void strike_out(std::uint64_t begin, std::uint64_t end) noexcept;
  void forget_unmapped() noexcept;
  // Makes all of it local and leaves it to the kernel.
  void hand_back(std::uint64_t begin, std::uint64_t end) noexcept;
  static void hand_back_here(PageRun pages) noexcept;
  template <typename Ours>
  std::int64_t advise_parts(std::uint64_t begin, std::uint64_t end, std::uint64_t advice, Ours&& ours) noexcept;
  class Loss;
  std::int64_t move(std::uint64_t address, std::uint64_t length, std::uint64_t new_length, std::uint64_t flags,
                    std::uint64_t new_address, Loss& replaced) noexcept;

  Mutex mutex_;  // guards all below, and that the kernel's layout and ours are changed together
  // As many as the kernel lets a process have mappings. None may be forgotten: what is registered and not in here would
  // be lost to a child.
  IntervalSet<1 << 16> adopted_;
  Intervals reserved_;  // private anonymous memory, adopted when the program may write it
  Intervals small_;     // ... that it may write, in mappings too small to be worth it by themselves
  std::uint64_t losses_ = 0;
  std::uint64_t break_ = 0;         // of the heap, as the kernel has it
  std::atomic<bool> adopts_{true};  // false once everything is left alone
  // The kernel locks all that is mapped from now on (MCL_FUTURE): none of it can be adopted.
  bool locks_future_ = false;
  std::atomic<bool> may_be_wiped_{false};
};

extern Layout layout;

}  // namespace comex::runtime

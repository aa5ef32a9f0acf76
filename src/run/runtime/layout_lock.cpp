// Memory that is locked stays where it is: it is the kernel's from then on, if the kernel agrees.
#include <sys/mman.h>
#include <sys/syscall.h>

#include <mutex>

#include "run/runtime/layout.h"
#include "run/runtime/layout_turn.h"
#include "run/runtime/lock_all.h"
#include "run/runtime/process.h"

namespace comex::runtime {
namespace {

// Whether so much may be locked: of other addresses, as what is adopted would all have to be here first.
std::int64_t try_to_lock(std::uint64_t bytes) noexcept {
  if (bytes == 0) return 0;
  constexpr std::uint64_t kNoMemory = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const std::int64_t at = kernel(SYS_mmap, 0, bytes, PROT_NONE, kNoMemory, static_cast<std::uint64_t>(-1));
  if (failed(at)) return 0;  // not known, then
  const std::int64_t result = kernel(SYS_mlock2, static_cast<std::uint64_t>(at), bytes, MLOCK_ONFAULT);
  kernel(SYS_munmap, static_cast<std::uint64_t>(at), bytes);
  return result;
}

}  // namespace

std::int64_t Layout::lock(std::uint64_t number, std::uint64_t address, std::uint64_t length,
                          std::uint64_t flags) noexcept {
  const Turn turn(mutex_);
  const std::uint64_t begin = address & ~kPageMask;
  const std::uint64_t end = round_up(address + length);
  std::uint64_t bytes = 0;
  adopted_.for_each_in(begin, end, [&](std::uint64_t from, std::uint64_t to) { bytes += to - from; });
  if (const std::int64_t tried = try_to_lock(bytes); failed(tried)) return tried;
  hand_back(begin, end);
  return kernel(number, address, length, flags);
}

// What is locked must not be taken away, and whether the kernel agrees is not known before it has: so it is asked while
// nobody evicts, and what is adopted is unlocked again until it has been handed back.
std::int64_t Layout::lock_all(std::uint64_t flags) noexcept {
  process.crossing.close();
  process.messages.pause();
  std::int64_t result = 0;
  {
    const std::lock_guard lock(mutex_);
    result = lock_as_touched(flags);
    if (!failed(result)) {
      locks_future_ = (flags & MCL_FUTURE) != 0;
      adopted_.for_each_in(0, UINT64_MAX,
                           [](std::uint64_t from, std::uint64_t to) { kernel(SYS_munlock, from, to - from); });
    }
  }
  process.messages.resume();
  process.crossing.open();
  if (failed(result) || (flags & MCL_CURRENT) == 0) return result;
  const Turn turn(mutex_);
  hand_back(0, std::uint64_t{1} << 47);
  lock_present(flags);
  return result;
}

std::int64_t Layout::unlock_all() noexcept {
  const Turn turn(mutex_);
  const std::int64_t result = kernel(SYS_munlockall, 0);
  if (!failed(result)) locks_future_ = false;
  return result;
}

}  // namespace comex::runtime

#include "run/runtime/neighbours.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "base/clock.h"
#include "base/futex.h"
#include "run/runtime/move.h"
#include "run/runtime/numbers.h"
#include "run/runtime/process.h"
#include "run/runtime/real.h"

namespace comex::runtime {
namespace {

using Waits = Room::Waits;

constexpr std::chrono::seconds kPatience{10};  // all its threads are stopped for it
constexpr Millis kLookAgain{100};

std::size_t bytes_of(std::span<const iovec> parts) noexcept {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

// Does it, and once more if the neighbour had to be asked first.
template <typename Transfer>
ssize_t with_neighbour(pid_t neighbour, std::span<const iovec> here, std::span<const iovec> there,
                       Transfer&& transfer) noexcept {
  const ssize_t done = transfer();
  if (neighbour == getpid() || (done < 0 && errno != EFAULT)) return done;
  if (done >= 0 && static_cast<std::size_t>(done) >= std::min(bytes_of(here), bytes_of(there))) return done;
  const int error = errno;
  if (kernel_waits_in(neighbour)) return transfer();
  errno = error;
  return done;
}

}  // namespace

bool kernel_waits_in(pid_t neighbour) noexcept {
  if (process.room == nullptr || !numbers.are_the_keepers()) return false;
  Room::Owned* const owned = process.room->find(static_cast<std::uint32_t>(neighbour));
  if (owned == nullptr || owned->life.load(std::memory_order_acquire) != Room::Life::awake) return false;
  std::uint32_t waits = Waits::no;
  owned->waits.compare_exchange_strong(waits, Waits::asked, std::memory_order_acq_rel);
  for (const Deadline patience(kPatience); !patience.passed();) {
    waits = owned->waits.load(std::memory_order_acquire);
    if (waits != Waits::asked) return waits == Waits::yes;
    futex_wait_shared(owned->waits, Waits::asked, kLookAgain);
  }
  return false;
}

void answer_neighbours() noexcept {
  auto& waits = process.owned->waits;
  if (waits.load(std::memory_order_acquire) != Waits::asked) return;
  waits.store(move_to_message() ? Waits::yes : Waits::never, std::memory_order_release);
  futex_wake_all_shared(waits);
}

}  // namespace comex::runtime

namespace {

using comex::runtime::Real;

constinit Real<decltype(process_vm_readv)> real_readv("process_vm_readv");
constinit Real<decltype(process_vm_writev)> real_writev("process_vm_writev");

}  // namespace

COMEX_TAKEN_OVER ssize_t process_vm_readv(pid_t pid, const iovec* here, unsigned long parts, const iovec* there,
                                          unsigned long parts_there, unsigned long flags) {
  return comex::runtime::with_neighbour(pid, {here, parts}, {there, parts_there},
                                        [&] { return real_readv(pid, here, parts, there, parts_there, flags); });
}

COMEX_TAKEN_OVER ssize_t process_vm_writev(pid_t pid, const iovec* here, unsigned long parts, const iovec* there,
                                           unsigned long parts_there, unsigned long flags) {
  return comex::runtime::with_neighbour(pid, {here, parts}, {there, parts_there},
                                        [&] { return real_writev(pid, here, parts, there, parts_there, flags); });
}

#include "run/runtime/lasting.h"

#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>

#include "run/runtime/faults.h"
#include "run/runtime/gate_entry.h"
#include "run/runtime/layout.h"
#include "run/runtime/move.h"
#include "run/runtime/process.h"
#include "run/runtime/program_memory.h"
#include "run/syscalls/syscall_lasting.h"
#include "run/syscalls/syscall_ranges.h"

// Where glibc has put its area, relative to the thread pointer; older ones have none.
extern "C" {
[[gnu::weak]] extern const std::ptrdiff_t __rseq_offset;
[[gnu::weak]] extern const unsigned __rseq_size;
}

namespace comex::runtime {
namespace {

using syscalls::Call;

class LeavingAlone final : public syscalls::Visitor {
 public:
  bool range(const syscalls::Range& range) noexcept override {
    layout.leave_alone(range.address, range.address + range.bytes);
    return true;
  }
  bool read(std::uintptr_t address, void* to, std::size_t bytes) noexcept override {
    return copy_in(address, to, bytes);
  }
  bool is_self(std::uint64_t) noexcept override { return true; }
};

void leave_named_range_alone(const Call& call) noexcept {
  const syscalls::RangeAt at = syscalls::range_at(call);
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  if (copy_in(call.arguments[2] + at.begin, &begin, sizeof begin) &&
      copy_in(call.arguments[2] + at.bytes, &bytes, sizeof bytes)) {
    layout.leave_alone(begin, begin + bytes);
  }
}

struct RobustHead {
  std::uint64_t next;
  std::int64_t futex_offset;
  std::uint64_t pending;
};

// Calls f(begin, end) for all memory that the kernel looks at when the thread ends, before it is read here.
template <typename F>
void for_each_of_robust_list(std::uint32_t thread, F&& f) noexcept {
  constexpr int kMost = 2048;  // ROBUST_LIST_LIMIT of the kernel
  std::uint64_t head = 0;
  std::uint64_t bytes = 0;
  const std::int64_t result = comex_gate_call(SYS_get_robust_list, thread, reinterpret_cast<std::uint64_t>(&head),
                                              reinterpret_cast<std::uint64_t>(&bytes), 0, 0, 0);
  if (result < 0 || head == 0) return;
  f(head, head + sizeof(RobustHead));
  RobustHead list{};
  if (!copy_in(head, &list, sizeof list)) return;
  const auto entry = [&](std::uint64_t address) {
    const std::uint64_t word = address + static_cast<std::uint64_t>(list.futex_offset);
    f(address, address + sizeof(std::uint64_t));
    f(word, word + sizeof(std::uint32_t));
  };
  constexpr std::uint64_t kInherits = 1;  // priorities: a flag in the address
  if ((list.pending & ~kInherits) != 0) entry(list.pending & ~kInherits);
  std::uint64_t at = list.next & ~kInherits;
  for (int i = 0; i < kMost && at != head && at != 0; ++i) {
    entry(at);
    std::uint64_t next = 0;
    if (!copy_in(at, &next, sizeof next)) return;
    at = next & ~kInherits;
  }
}

}  // namespace

bool allow_lasting(const Call& call, std::int64_t& result) noexcept {
  const syscalls::Keeps keeps = syscalls::keeps(call);
  if (keeps != syscalls::Keeps::refused && layout.leaves_everything()) return true;
  if (syscalls::needs_message(call)) (void)move_to_message();
  if (syscalls::may_pin(call)) expect_pins();
  // The kernel does, for whatever is away; and eviction leaves alone what it has pinned.
  const bool waits = process.memory.delivery() == Delivery::message && process.memory.sees_pins();
  if (waits && keeps != syscalls::Keeps::refused && keeps != syscalls::Keeps::range) return true;
  switch (keeps) {
    case syscalls::Keeps::nothing: return true;
    case syscalls::Keeps::addresses: {
      LeavingAlone leaving;
      (void)syscalls::enumerate(call, leaving);
      return true;
    }
    case syscalls::Keeps::range: leave_named_range_alone(call); return true;
    case syscalls::Keeps::refused: result = -EINVAL; return false;
    // As on a kernel that was built without it, or in a container that forbids it: programs have another way.
    case syscalls::Keeps::unknown: result = -ENOSYS; return false;
  }
  return true;
}

void leave_storage_alone(std::uint64_t thread_pointer) noexcept {
  layout.leave_alone(thread_pointer - process.own_threads.storage_below(),
                     thread_pointer + OwnThreads::storage_above());
}

void leave_registered_alone() noexcept {
  leave_storage_alone(reinterpret_cast<std::uint64_t>(__builtin_thread_pointer()));
  constexpr std::uint64_t kGetTidAddress = 40;  // PR_GET_TID_ADDRESS
  constexpr std::uint64_t kLeastArea = 32;
  const auto leave = [](std::uint64_t begin, std::uint64_t bytes) { layout.leave_alone(begin, begin + bytes); };
  std::uint64_t word = 0;
  std::uint64_t bytes = 0;
  if (comex_gate_call(SYS_prctl, kGetTidAddress, reinterpret_cast<std::uint64_t>(&word), 0, 0, 0, 0) == 0 &&
      word != 0) {
    leave(word, sizeof(std::uint32_t));
  }
  if (comex_gate_call(SYS_get_robust_list, 0, reinterpret_cast<std::uint64_t>(&word),
                      reinterpret_cast<std::uint64_t>(&bytes), 0, 0, 0) == 0 &&
      word != 0) {
    leave(word, bytes);
  }
  if (&__rseq_offset != nullptr && __rseq_size != 0) {
    const auto pointer = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
    leave(pointer + static_cast<std::uint64_t>(__rseq_offset), __rseq_size < kLeastArea ? kLeastArea : __rseq_size);
  }
}

void leave_robust_list_alone() noexcept {
  for_each_of_robust_list(0, [](std::uint64_t begin, std::uint64_t end) { layout.leave_alone(begin, end); });
}

void settle_robust_lists() noexcept {
  process.threads->for_each([](std::uint32_t thread) {
    for_each_of_robust_list(thread, [](std::uint64_t begin, std::uint64_t end) {
      for (PageNo page = PageNo{begin >> kPageShift}; page.value <= (end - 1) >> kPageShift; page = page + 1) {
        settle(page, true);
      }
    });
  });
}

}  // namespace comex::runtime

#include "run/runtime/layout.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>

#include "run/runtime/deputy.h"
#include "run/runtime/faults.h"
#include "run/runtime/gate_entry.h"
#include "run/runtime/let.h"
#include "run/runtime/lock_all.h"
#include "run/runtime/maps.h"
#include "run/runtime/process.h"
#include "run/runtime/real.h"

namespace comex::runtime {
namespace {

constexpr std::uint64_t kPageMask = kPageSize - 1;
constexpr std::uint64_t kCollapse = 25;  // MADV_COLLAPSE, newer than some headers

std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + kPageMask) & ~kPageMask;
}

std::int64_t kernel(std::uint64_t number, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0,
                    std::uint64_t d = 0, std::uint64_t e = 0, std::uint64_t f = 0) {
  return let_filtered({number, {a, b, c, d, e, f}});
}

bool failed(std::int64_t result) {
  return result < 0 && result > -4096;
}

// What kind of mapping is worth having.
bool is_private_memory(std::uint64_t flags) {
  constexpr std::uint64_t kOthers = MAP_SHARED | MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB | MAP_LOCKED;
  return (flags & (MAP_PRIVATE | MAP_ANONYMOUS)) == (MAP_PRIVATE | MAP_ANONYMOUS) && (flags & kOthers) == 0;
}

// Inside the crossing, and then alone with the layout: in this order, for the one who forks closes the crossing first.
class Turn {
 public:
  explicit Turn(Mutex& mutex) noexcept : inside_(process.crossing, this_thread()->inside), lock_(mutex) {}

 private:
  Inside inside_;
  std::lock_guard<Mutex> lock_;
};

// For what needs descriptors of the runtime. REQUIRES: f() does not wait for the crossing: the caller is inside, if f()
// has to be.
template <typename F>
auto with_ours(F&& f) noexcept {
  ThreadState* const state = this_thread();
  return state != nullptr ? with_descriptors(*state, f) : f();
}

bool is_writable_data(std::uint64_t protection) {
  return (protection & PROT_WRITE) != 0 && (protection & PROT_EXEC) == 0;
}

}  // namespace

constinit Layout layout;

PageRun Layout::pages_of(std::uint64_t begin, std::uint64_t end) noexcept {
  return PageRun::of(begin, end - begin);
}

// --- what is whose ---

void Layout::adopt(std::uint64_t begin, std::uint64_t end) noexcept {
  if (!adopts_ || locks_future_ || begin >= end) return;
  with_ours([&] { adopt_here(begin, end); });
}

void Layout::adopt_here(std::uint64_t begin, std::uint64_t end) noexcept {
  const PageRun pages = pages_of(begin, end);
  // Entries first: a fault may come as soon as the kernel knows. It is served when the kernel does.
  if (process.pager->make_room(pages) != Errc::ok) return;
  if (process.memory.enlist(pages) != Errc::ok) return process.pager->forget_locked(pages);
  process.pager->adopt_locked(pages);
  adopted_.add(begin, end);
  reserved_.remove(begin, end);
}

void Layout::forget(std::uint64_t begin, std::uint64_t end) noexcept {
  reserved_.remove(begin, end);
  adopted_.for_each_in(begin, end, [](std::uint64_t from, std::uint64_t to) {
    with_ours([&] { process.pager->forget(pages_of(from, to)); });
  });
  adopted_.remove(begin, end);
}

void Layout::hand_back(std::uint64_t begin, std::uint64_t end) noexcept {
  adopted_.for_each_in(
      begin, end, [](std::uint64_t from, std::uint64_t to) { with_ours([&] { hand_back_here(pages_of(from, to)); }); });
  adopted_.remove(begin, end);
  reserved_.remove(begin, end);
}

void Layout::hand_back_here(PageRun pages) noexcept {
  process.threads->hold_everything();
  for (PageNo page = pages.first; page < pages.end(); page = page + 1) {
    // The kernel has zeros too.
    if (!process.pager->table().load(page).is(PageState::untouched)) settle(page, true);
  }
  (void)process.memory.unguard(pages);
  (void)process.memory.dismiss(pages);
  process.pager->forget(pages);
  process.threads->let_go();
}

// Memory that the parent did not let the child have (MADV_DONTFORK): there is nothing mapped there.
void Layout::forget_unmapped() noexcept {
  const auto forget_all_in = [this](std::uint64_t begin, std::uint64_t end) {
    for (;;) {
      const auto [from, to] = adopted_.first_in(begin, end);
      if (from == to) return;
      process.pager->inherit(pages_of(from, to));  // counted as what is forgotten is
      forget(from, to);
    }
  };
  std::uint64_t at = 0;
  Maps maps;
  for (Maps::Mapping mapping; maps.next(mapping); at = mapping.end) {
    if (at < mapping.begin) forget_all_in(at, mapping.begin);
  }
  if (at != 0) forget_all_in(at, UINT64_MAX);
}

void Layout::enlist_again() noexcept {
  locks_future_ = false;  // what is locked in the parent is not in the child
  forget_unmapped();
  adopted_.for_each_in(0, UINT64_MAX, [](std::uint64_t from, std::uint64_t to) {
    const PageRun pages = pages_of(from, to);
    if (process.memory.enlist(pages) != Errc::ok) stop("the memory of a child could not be taken over");
    process.pager->inherit(pages);
  });
}

void Layout::hand_over(UffdMemory& next) noexcept {
  adopted_.for_each_in(0, UINT64_MAX, [&](std::uint64_t from, std::uint64_t to) {
    const PageRun pages = pages_of(from, to);
    if (process.memory.dismiss(pages) != Errc::ok || next.enlist(pages) != Errc::ok) {
      stop("the program's memory could not be handed over");
    }
  });
  process.memory.become(next);
  adopted_.for_each_in(0, UINT64_MAX, [](std::uint64_t from, std::uint64_t to) {
    process.pager->guard_clean(pages_of(from, to));  // the guards were lifted with the registration
  });
}

// --- the calls ---

// What a call is about to take away of adopted memory, if it does not fail. While it is made, nobody else touches the
// entries: what the kernel refuses to take away is there afterwards as it was before.
class Layout::Loss {
 public:
  // Whether something else is to be there.
  enum class Then { nothing, another };

  Loss(Layout& owner, std::uint64_t begin, std::uint64_t end, Then then = Then::nothing) noexcept
      : layout_(owner), begin_(begin), end_(end), then_(then) {
    ++layout_.losses_;
    layout_.adopted_.for_each_in(begin, end, [](std::uint64_t from, std::uint64_t to) {
      with_ours([&] { process.pager->lock(pages_of(from, to)); });
    });
  }
  Loss(const Loss&) = delete;
  Loss& operator=(const Loss&) = delete;

  // The call was made, and this is its result. To be called once, before what is there now is adopted.
  void settle(std::int64_t result) noexcept {
    const bool refused = failed(result);
    // A call that fails may have unmapped what it was to replace, if it was made: -ENOSYS is from a filter.
    const bool may_be_gone = then_ == Then::another && result != -ENOSYS;
    for (std::uint64_t at = begin_; at < end_;) {
      const Intervals::Interval next = layout_.adopted_.first_in(at, end_);
      if (next.begin == next.end) break;
      at = next.end;
      const PageRun pages = pages_of(next.begin, next.end);
      if (refused && (!may_be_gone || is_mapped(pages))) {
        with_ours([&] { process.pager->let_go(pages); });
      } else {
        with_ours([&] { process.pager->forget_locked(pages); });
        layout_.adopted_.remove(next.begin, next.end);
      }
    }
    if (!refused) layout_.reserved_.remove(begin_, end_);
  }

 private:
  // What is registered can be registered again; what is gone cannot.
  static bool is_mapped(PageRun pages) noexcept {
    return with_ours([&] { return process.memory.enlist(pages) == Errc::ok; });
  }

  Layout& layout_;
  const std::uint64_t begin_;
  const std::uint64_t end_;
  const Then then_;
};

std::int64_t Layout::map(std::uint64_t address, std::uint64_t length, std::uint64_t protection, std::uint64_t flags,
                         std::uint64_t fd, std::uint64_t offset) noexcept {
  const Turn turn(mutex_);
  const bool replaces = (flags & MAP_FIXED) != 0 && (address & kPageMask) == 0 && length > 0;
  // What is put over a part of adopted memory is adopted, however small: the program takes it for one mapping.
  const bool amid = replaces && adopted_.first_in(address, address + round_up(length)).end != 0;
  Loss replaced(*this, address, replaces ? address + round_up(length) : address, Loss::Then::another);
  const bool worth_it = is_private_memory(flags) && is_writable_data(protection) && (length >= kSmallest || amid);
  // What is adopted must be empty. To fill it ahead is no more than a wish.
  const std::uint64_t asked = worth_it ? flags & ~std::uint64_t{MAP_POPULATE} : flags;
  const std::int64_t result = kernel(SYS_mmap, address, length, protection, asked, fd, offset);
  replaced.settle(result);
  if (failed(result)) return result;
  const auto begin = static_cast<std::uint64_t>(result);
  const std::uint64_t end = begin + round_up(length);
  reserved_.remove(begin, end);
  if (worth_it) {
    adopt(begin, end);
  } else if (is_private_memory(flags) && protection == PROT_NONE) {
    reserved_.add(begin, end);  // nothing can be in it yet
  }
  return result;
}

std::int64_t Layout::unmap(std::uint64_t address, std::uint64_t length) noexcept {
  const Turn turn(mutex_);
  const bool sensible = (address & kPageMask) == 0 && length > 0;
  Loss unmapped(*this, address, sensible ? address + round_up(length) : address);
  const std::int64_t result = kernel(SYS_munmap, address, length);
  unmapped.settle(result);
  return result;
}

std::int64_t Layout::remap(std::uint64_t address, std::uint64_t length, std::uint64_t new_length, std::uint64_t flags,
                           std::uint64_t new_address) noexcept {
  const Turn turn(mutex_);
  const std::uint64_t old_end = address + round_up(length);
  const std::uint64_t bytes = round_up(new_length);
  const bool fixed = (flags & MREMAP_FIXED) != 0;
  const bool overlaps = fixed && new_address < old_end && address < new_address + bytes;
  if ((address & kPageMask) != 0 || new_length == 0 || overlaps) {  // an error
    return kernel(SYS_mremap, address, length, new_length, flags, new_address);
  }
  // Of no length: what is shared is mapped once more.
  const bool any = address < old_end;
  const bool shrinks = any && bytes <= old_end - address && (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) == 0;
  const auto ours = adopted_.first_in(address, old_end);
  const bool is_one = any && ours.begin == address && ours.end == old_end;
  // Newer kernels move several mappings at once, but none that are registered: then all of it is the kernel's.
  if (!shrinks && !is_one) hand_back(address, old_end);
  Loss lost = shrinks ? Loss(*this, address + bytes, old_end)
                      : Loss(*this, new_address, new_address + (fixed ? bytes : 0), Loss::Then::another);
  if (!shrinks && is_one) {
    return with_ours([&] { return move(address, round_up(length), bytes, flags, new_address, lost); });
  }
  const std::int64_t result = kernel(SYS_mremap, address, length, new_length, flags, new_address);
  lost.settle(result);
  return result;
}

std::int64_t Layout::move(std::uint64_t address, std::uint64_t length, std::uint64_t new_length, std::uint64_t flags,
                          std::uint64_t new_address, Loss& replaced) noexcept {
  if ((flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) == 0) {
    const std::int64_t result = kernel(SYS_mremap, address, length, new_length, 0);
    if (!failed(result)) adopt(address + length, address + new_length);
    if (result != -ENOMEM || (flags & MREMAP_MAYMOVE) == 0) return result;
  }
  // A mapping that is moved loses its registration, and so do neighbours at the new place that it is merged with: it
  // must not have one. Who touches memory while it moves must expect anything.
  const PageRun old = pages_of(address, address + length);
  process.pager->hold(old);
  (void)process.memory.dismiss(old);
  const std::int64_t result = kernel(SYS_mremap, address, length, new_length, flags, new_address);
  replaced.settle(result);
  const bool remains = failed(result) || (flags & MREMAP_DONTUNMAP) != 0;
  if (remains && process.memory.enlist(old) != Errc::ok) stop("memory could not be taken over again after mremap");
  if (failed(result)) {
    process.pager->let_go_unguarded(old);
    return result;
  }
  const auto begin = static_cast<std::uint64_t>(result);
  const std::uint64_t kept = length < new_length ? length : new_length;
  if (process.memory.enlist(pages_of(begin, begin + kept)) != Errc::ok ||
      process.pager->relocate(pages_of(address, address + kept), PageNo{begin >> kPageShift},
                              remains ? PageState::untouched : PageState::none) != Errc::ok) {
    stop("memory that was moved (mremap) could not be taken over");
  }
  process.pager->let_go(pages_of(address + kept, address + length));
  if (!remains) {
    process.pager->forget(pages_of(address + kept, address + length));
    adopted_.remove(address, address + length);
  }
  adopted_.add(begin, begin + kept);
  adopt(begin + kept, begin + new_length);
  return result;
}

std::int64_t Layout::protect(std::uint64_t number, std::uint64_t address, std::uint64_t length,
                             std::uint64_t protection, std::uint64_t key) noexcept {
  const Turn turn(mutex_);
  const std::uint64_t end = address + round_up(length);
  if ((protection & PROT_EXEC) != 0) hand_back(address, end);
  const bool readable = (protection & (PROT_READ | PROT_WRITE)) != 0;
  const auto hide = [&](bool hidden) {
    adopted_.for_each_in(
        address, end, [&](std::uint64_t from, std::uint64_t to) { process.pager->hide(pages_of(from, to), hidden); });
  };
  // Eviction that is under way may be reading.
  if (!readable) {
    hide(true);
    adopted_.for_each_in(address, end, [](std::uint64_t from, std::uint64_t to) {
      with_ours([&] {
        process.pager->hold(pages_of(from, to));
        process.pager->let_go(pages_of(from, to));
      });
    });
  }
  const std::int64_t result = kernel(number, address, length, protection, key);
  if (failed(result)) return result;
  if (readable) hide(false);
  if (!is_writable_data(protection)) return result;
  for (;;) {
    const auto [from, to] = reserved_.first_in(address, end);
    if (from == to) return result;
    adopt(from, to);
    // It may have been written and then closed, before the process was woken.
    for_each_present(pages_of(from, to), [](PageRun pages) { process.pager->found(pages); });
    reserved_.remove(from, to);  // also if it could not be adopted
  }
}

std::int64_t Layout::advise(std::uint64_t address, std::uint64_t length, std::uint64_t advice) noexcept {
  const Turn turn(mutex_);
  const std::uint64_t end = address + round_up(length);
  const auto ours = adopted_.first_in(address, end);
  if (ours.begin == ours.end || (address & kPageMask) != 0) return kernel(SYS_madvise, address, length, advice);
  switch (advice) {
    case MADV_FREE:
    case MADV_DONTNEED: return discard(address, end, advice);
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_WILLNEED:
    case MADV_COLD:
    case MADV_PAGEOUT:
    case kCollapse: return 0;  // advice that makes no difference
    case MADV_POPULATE_READ:
    case MADV_POPULATE_WRITE:
      adopted_.for_each_in(address, end, [&](std::uint64_t from, std::uint64_t to) {
        for (; from < to; from += kPageSize)
          (void)make_resident(PageNo{from >> kPageShift}, advice != MADV_POPULATE_READ);
      });
      return 0;
    case MADV_WIPEONFORK:
      // The kernel does that with what is there; what is away a child would find.
      hand_back(address, end);
      return kernel(SYS_madvise, address, length, advice);
    default: return kernel(SYS_madvise, address, length, advice);
  }
}

// Ours page by page, each under its lock; what lies between is for the kernel.
std::int64_t Layout::discard(std::uint64_t begin, std::uint64_t end, std::uint64_t advice) noexcept {
  std::int64_t result = 0;
  const auto leave_to_kernel = [&](std::uint64_t to) {
    if (begin < to && result == 0) result = kernel(SYS_madvise, begin, to - begin, advice);
  };
  adopted_.for_each_in(begin, end, [&](std::uint64_t from, std::uint64_t to) {
    leave_to_kernel(from);
    with_ours([&] { process.pager->clear(pages_of(from, to)); });
    begin = to;
  });
  leave_to_kernel(end);
  return result;
}

std::int64_t Layout::set_break(std::uint64_t address) noexcept {
  const Turn turn(mutex_);
  const std::uint64_t before = round_up(break_);
  const std::uint64_t wanted = round_up(address);
  Loss lost(*this, wanted, wanted != 0 ? before : 0);
  const std::int64_t result = kernel(SYS_brk, address);
  lost.settle(static_cast<std::uint64_t>(result) == address ? 0 : -ENOMEM);  // refused: it is where it was
  if (failed(result)) return result;                                         // a filter has stopped it
  const std::uint64_t after = round_up(static_cast<std::uint64_t>(result));
  if (after > before) adopt(before, after);
  break_ = static_cast<std::uint64_t>(result);
  return result;
}

std::uint64_t Layout::losses() noexcept {
  const Turn turn(mutex_);
  return losses_;
}

std::int64_t Layout::lock(std::uint64_t number, std::uint64_t address, std::uint64_t length,
                          std::uint64_t flags) noexcept {
  const Turn turn(mutex_);
  hand_back(address & ~kPageMask, round_up(address + length));
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

void Layout::leave_alone(std::uint64_t begin, std::uint64_t end) noexcept {
  const Turn turn(mutex_);
  hand_back(begin & ~kPageMask, round_up(end));
}

void Layout::leave_everything_alone() noexcept {
  const Turn turn(mutex_);
  hand_back(0, std::uint64_t{1} << 47);
  adopts_ = false;
}

// --- what was there before ---

namespace {

extern "C" {
extern char __bss_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
}

using Interval = Intervals::Interval;

Interval common(Interval a, Interval b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

// What of a mapping a thread stands on; nothing, if it begins where it ends.
struct Ground {
  std::array<Interval, 3> parts;

  Ground(const Standing& thread, Interval mapping) {
    const auto inside = [&](std::uint64_t address) { return address >= mapping.begin && address < mapping.end; };
    const std::uint64_t control_end = round_up(thread.thread_pointer + kControlBlock);
    // libc puts the control block on top of the stack. Where it is elsewhere, nothing says where the stack ends.
    const bool together = inside(thread.thread_pointer) && thread.thread_pointer >= thread.stack;
    if (inside(thread.stack)) parts[0] = {mapping.begin, together ? control_end : mapping.end};
    parts[1] = {(thread.thread_pointer - kThreadLocal) & ~kPageMask, control_end};
    parts[2] = {thread.signal_stack & ~kPageMask, round_up(thread.signal_stack_end)};
    for (Interval& part : parts) part = common(part, mapping);
  }

  static constexpr std::uint64_t kControlBlock = 4096;  // more than libc's
  static constexpr std::uint64_t kThreadLocal = 64 << 10;
};

}  // namespace

void Layout::take_over(std::uint64_t begin, std::uint64_t end, const Standing* threads) noexcept {
  while (begin < end) {
    Interval next{end, end};  // the first that is to be left alone
    for (const Standing* thread = threads; thread != nullptr; thread = thread->next) {
      for (const Interval& part : Ground(*thread, {begin, end}).parts) {
        if (part.begin < part.end && part.begin < next.begin) next = part;
      }
    }
    if (begin < next.begin) {
      adopt(begin, next.begin);
      for_each_present(pages_of(begin, next.begin), [](PageRun pages) { process.pager->found(pages); });
    }
    begin = next.end;
  }
}

void Layout::begin(const Standing* threads) noexcept {
  const std::lock_guard lock(mutex_);
  break_ = static_cast<std::uint64_t>(kernel(SYS_brk, 0));
  Maps maps(may_be_wiped_.load(std::memory_order_relaxed));
  for (Maps::Mapping mapping; maps.next(mapping);) {
    const bool ours = mapping.begin < reinterpret_cast<std::uint64_t>(_end) &&
                      mapping.end > reinterpret_cast<std::uint64_t>(__bss_start);
    const bool small = !mapping.heap && mapping.end - mapping.begin < kSmallest;
    const bool own = process.own.owns(mapping.begin, mapping.end);
    // Locked by a system call that libc did not see: what is seized could not be moved there.
    if (own && mapping.locked) kernel(SYS_munlock, mapping.begin, mapping.end - mapping.begin);
    if (ours || small || mapping.locked || mapping.wiped || own) continue;
    if (mapping.private_data) take_over(mapping.begin, mapping.end, threads);
    if (mapping.private_reserve) reserved_.add(mapping.begin, mapping.end);
  }
  locks_future_ = locks_what_comes();  // since it was dormant
}

}  // namespace comex::runtime

namespace {

constinit comex::runtime::Real<int(void*, std::size_t, int)> real_madvise("madvise");

}  // namespace

// A dormant process has no gate.
COMEX_TAKEN_OVER int madvise(void* address, std::size_t length, int advice) noexcept {
  if (advice == MADV_WIPEONFORK) comex::runtime::layout.expect_wiped();
  return real_madvise(address, length, advice);
}

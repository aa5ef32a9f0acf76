#include "run/runtime/layout.h"

#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>

#include "run/runtime/deputy.h"
#include "run/runtime/faults.h"
#include "run/runtime/layout_turn.h"
#include "run/runtime/maps.h"
#include "run/runtime/process.h"

namespace comex::runtime {
namespace {

// What kind of mapping is worth having.
bool is_private_memory(std::uint64_t flags) {
  constexpr std::uint64_t kOthers = MAP_SHARED | MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB | MAP_LOCKED;
  return (flags & (MAP_PRIVATE | MAP_ANONYMOUS)) == (MAP_PRIVATE | MAP_ANONYMOUS) && (flags & kOthers) == 0;
}

bool is_writable_data(std::uint64_t protection) {
  return (protection & PROT_WRITE) != 0 && (protection & PROT_EXEC) == 0;
}

// Nothing can be in it but zeros.
bool is_reserved(std::uint64_t protection) {
  return (protection & (PROT_WRITE | PROT_EXEC)) == 0;
}

constexpr std::size_t kSpare = 1024;  // intervals

}  // namespace

constinit Layout layout;

PageRun Layout::pages_of(std::uint64_t begin, std::uint64_t end) noexcept {
  return PageRun::of(begin, end - begin);
}

// --- what is whose ---

bool Layout::adopt(std::uint64_t begin, std::uint64_t end) noexcept {
  if (!adopts_ || locks_future_ || begin >= end) return false;
  return with_ours([&] { return adopt_here(begin, end); });
}

bool Layout::adopt_here(std::uint64_t begin, std::uint64_t end) noexcept {
  // What is cut in pieces later needs room, too.
  if (adopted_.size() > adopted_.kCapacity - kSpare) return false;
  const PageRun pages = pages_of(begin, end);
  // Entries first: a fault may come as soon as the kernel knows. It is served when the kernel does.
  if (process.pager->make_room(pages) != Errc::ok) return false;
  if (process.memory.enlist(pages) != Errc::ok) {
    process.pager->forget_locked(pages);
    return false;
  }
  process.pager->adopt_locked(pages);
  adopted_.add(begin, end);
  reserved_.remove(begin, end);
  return true;
}

// The kernel has made a registered mapping longer, and registered what is new.
void Layout::adopt_grown(std::uint64_t begin, std::uint64_t end) noexcept {
  if (begin >= end || adopt(begin, end)) return;
  with_ours([&] { (void)process.memory.dismiss(pages_of(begin, end)); });
}

void Layout::adopt_used(std::uint64_t begin, std::uint64_t end) noexcept {
  adopt(begin, end);
  for_each_present(pages_of(begin, end), [](PageRun pages) { process.pager->found(pages); });
}

void Layout::resized_small(Interval old, Interval now, bool may_move) noexcept {
  small_.remove(old.begin, old.end);
  // What may have moved is in nobody's hands: no call is under way that has not been prepared for a page to leave.
  if (!may_move) return;
  if (now.end - now.begin >= kSmallest) return adopt_used(now.begin, now.end);
  small_.add(now.begin, now.end);
}

void Layout::strike_out(std::uint64_t begin, std::uint64_t end) noexcept {
  if (!adopted_.remove(begin, end)) stop("it has more mappings than comex can tell apart");
  reserved_.remove(begin, end);
  small_.remove(begin, end);
}

void Layout::forget(std::uint64_t begin, std::uint64_t end) noexcept {
  adopted_.for_each_in(begin, end, [](std::uint64_t from, std::uint64_t to) {
    with_ours([&] { process.pager->forget(pages_of(from, to)); });
  });
  strike_out(begin, end);
}

void Layout::hand_back(std::uint64_t begin, std::uint64_t end) noexcept {
  adopted_.for_each_in(
      begin, end, [](std::uint64_t from, std::uint64_t to) { with_ours([&] { hand_back_here(pages_of(from, to)); }); });
  strike_out(begin, end);
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
    reserved_.remove(begin, end);
    small_.remove(begin, end);
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
// entries: what the kernel refuses to take away is there afterwards as it was before. A task that is apart keeps the
// deputy to itself: others would have it wait for these entries.
class Layout::Loss {
 public:
  // Whether something else is to be there.
  enum class Then { nothing, another };

  Loss(Layout& owner, std::uint64_t begin, std::uint64_t end, Then then = Then::nothing) noexcept
      : layout_(owner), begin_(begin), end_(end), then_(then) {
    layout_.adopted_.for_each_in(begin, end, [&](std::uint64_t from, std::uint64_t to) {
      ++layout_.losses_;
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
      const Interval next = layout_.adopted_.first_in(at, end_);
      if (next.begin == next.end) break;
      at = next.end;
      const PageRun pages = pages_of(next.begin, next.end);
      if (refused && (!may_be_gone || is_mapped(pages))) {
        with_ours([&] { process.pager->let_go(pages); });
      } else {
        with_ours([&] { process.pager->forget_locked(pages); });
        layout_.strike_out(next.begin, next.end);
      }
    }
    if (!refused) layout_.strike_out(begin_, end_);
  }

 private:
  // What is registered can be registered again; what is gone cannot.
  static bool is_mapped(PageRun pages) noexcept {
    return with_ours([&] { return process.memory.enlist(pages) == Errc::ok; });
  }

  const Deputy::Kept deputy_{*this_thread()};
  Layout& layout_;
  const std::uint64_t begin_;
  const std::uint64_t end_;
  const Then then_;
};

std::int64_t Layout::map(std::uint64_t address, std::uint64_t length, std::uint64_t protection, std::uint64_t flags,
                         std::uint64_t fd, std::uint64_t offset) noexcept {
  const Turn turn(mutex_);
  const bool replaces = (flags & MAP_FIXED) != 0 && (address & kPageMask) == 0 && length > 0;
  // What is put over a part of adopted or reserved memory is adopted, however small: the program takes it for one
  // mapping.
  const auto has = [&](const auto& some) { return some.first_in(address, address + round_up(length)).end != 0; };
  const bool amid = replaces && (has(adopted_) || has(reserved_));
  Loss replaced(*this, address, replaces ? address + round_up(length) : address, Loss::Then::another);
  const bool data = is_private_memory(flags) && is_writable_data(protection) && !leaves_everything();
  const bool worth_it = data && (length >= kSmallest || amid);
  // What is adopted must be empty. To fill it ahead is no more than a wish.
  const std::uint64_t asked = worth_it ? flags & ~std::uint64_t{MAP_POPULATE} : flags;
  const std::int64_t result = kernel(SYS_mmap, address, length, protection, asked, fd, offset);
  replaced.settle(result);
  if (failed(result)) return result;
  const auto begin = static_cast<std::uint64_t>(result);
  const std::uint64_t end = begin + round_up(length);
  reserved_.remove(begin, end);
  small_.remove(begin, end);
  // Many small ones lie side by side: all but the first are adopted.
  const bool beside = data && (adopted_.touches(begin, end) || small_.touches(begin, end));
  if (worth_it || beside) {
    if ((asked & MAP_POPULATE) != 0) {
      adopt_used(begin, end);
    } else {
      adopt(begin, end);
    }
  } else if (data) {
    small_.add(begin, end);
  } else if (is_private_memory(flags) && is_reserved(protection)) {
    reserved_.add(begin, end);
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
  const bool was_small = small_.holds(address, old_end);
  // Newer kernels move several mappings at once, but none that are registered: then all of it is the kernel's.
  if (!shrinks && !is_one) hand_back(address, old_end);
  Loss lost = shrinks ? Loss(*this, address + bytes, old_end)
                      : Loss(*this, new_address, new_address + (fixed ? bytes : 0), Loss::Then::another);
  if (!shrinks && is_one) {
    return with_ours([&] { return move(address, round_up(length), bytes, flags, new_address, lost); });
  }
  const std::int64_t result = kernel(SYS_mremap, address, length, new_length, flags, new_address);
  lost.settle(result);
  if (was_small && !failed(result)) {
    const auto begin = static_cast<std::uint64_t>(result);
    const bool may_move = (flags & (MREMAP_MAYMOVE | MREMAP_DONTUNMAP)) == MREMAP_MAYMOVE;
    resized_small({address, old_end}, {begin, begin + bytes}, may_move || shrinks);
  }
  return result;
}

std::int64_t Layout::move(std::uint64_t address, std::uint64_t length, std::uint64_t new_length, std::uint64_t flags,
                          std::uint64_t new_address, Loss& replaced) noexcept {
  if ((flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) == 0) {
    const std::int64_t result = kernel(SYS_mremap, address, length, new_length, 0);
    if (!failed(result)) adopt_grown(address + length, address + new_length);
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
    strike_out(address, address + length);
  }
  if (!adopted_.add(begin, begin + kept)) stop("it has more mappings than comex can tell apart");
  adopt(begin + kept, begin + new_length);
  return result;
}

std::int64_t Layout::protect(std::uint64_t number, std::uint64_t address, std::uint64_t length,
                             std::uint64_t protection, std::uint64_t key) noexcept {
  const Turn turn(mutex_);
  const std::uint64_t end = address + round_up(length);
  // What has a key is not for our handlers to read, nor for the calls that they make.
  const bool has_key = number == SYS_pkey_mprotect && static_cast<int>(key) > 0;
  const bool sensible = (address & kPageMask) == 0;
  if (sensible && ((protection & PROT_EXEC) != 0 || has_key)) hand_back(address, end);
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
  if (!is_writable_data(protection)) small_.remove(address, end);
  if (!is_writable_data(protection) || has_key) return result;
  for (;;) {
    const auto [from, to] = reserved_.first_in(address, end);
    if (from == to) return result;
    adopt_used(from, to);        // it may have been written and then closed, before the process was woken
    reserved_.remove(from, to);  // also if it could not be adopted
  }
}

// Shared memory where something of the program's was (SHM_REMAP).
std::int64_t Layout::attach(std::uint64_t id, std::uint64_t address, std::uint64_t flags) noexcept {
  const Turn turn(mutex_);
  const std::uint64_t begin = (flags & SHM_RND) != 0 ? address & ~kPageMask : address;
  const bool replaces = (flags & SHM_REMAP) != 0 && (begin & kPageMask) == 0;
  shmid_ds segment{};
  // Who may not ask for its length may not have it mapped either.
  const bool known = kernel(SYS_shmctl, id, IPC_STAT, reinterpret_cast<std::uint64_t>(&segment)) == 0;
  const std::uint64_t bytes = known ? round_up(segment.shm_segsz) : 0;
  Loss replaced(*this, begin, replaces ? begin + bytes : begin, Loss::Then::another);
  const std::int64_t result = kernel(SYS_shmat, id, address, flags);
  replaced.settle(result);
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

void Layout::leave_alone(std::uint64_t begin, std::uint64_t end) noexcept {
  const Turn turn(mutex_);
  hand_back(begin & ~kPageMask, round_up(end));
}

bool Layout::leave_everything_alone() noexcept {
  const Turn turn(mutex_);
  hand_back(0, std::uint64_t{1} << 47);
  return adopts_.exchange(false);
}

// --- what was there before ---

namespace {

extern "C" {
extern char __bss_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
}

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

bool stands_on(const Standing* threads, Interval mapping) {
  for (const Standing* thread = threads; thread != nullptr; thread = thread->next) {
    for (const Interval& part : Ground(*thread, mapping).parts) {
      if (part.begin < part.end) return true;
    }
  }
  return false;
}

}  // namespace

void Layout::take_over(std::uint64_t begin, std::uint64_t end, const Standing* threads) noexcept {
  while (begin < end) {
    Interval next{end, end};  // the first that is to be left alone
    for (const Standing* thread = threads; thread != nullptr; thread = thread->next) {
      for (const Interval& part : Ground(*thread, {begin, end}).parts) {
        if (part.begin < part.end && part.begin < next.begin) next = part;
      }
    }
    if (begin < next.begin) adopt_used(begin, next.begin);
    begin = next.end;
  }
}

void Layout::begin_with_nothing() noexcept {
  break_ = static_cast<std::uint64_t>(kernel(SYS_brk, 0));
  adopts_ = false;
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
    if (ours || mapping.locked || mapping.wiped || own) continue;
    if (small && mapping.private_data && !stands_on(threads, {mapping.begin, mapping.end})) {
      small_.add(mapping.begin, mapping.end);
    }
    if (!small && mapping.private_data) take_over(mapping.begin, mapping.end, threads);
    if (!small && mapping.private_reserve) reserved_.add(mapping.begin, mapping.end);
  }
  locks_future_ = locks_what_comes();  // since it was dormant
}

}  // namespace comex::runtime

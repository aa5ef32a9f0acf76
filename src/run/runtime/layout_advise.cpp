// Advice on memory (madvise, process_madvise): what of it takes pages away, or the kernel makes true behind our back.
#include <limits.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <cerrno>

#include "run/runtime/faults.h"
#include "run/runtime/layout.h"
#include "run/runtime/layout_turn.h"
#include "run/runtime/process.h"
#include "run/runtime/program_memory.h"
#include "run/runtime/real.h"

namespace comex::runtime {
namespace {

// Newer than some headers.
constexpr std::uint64_t kDontNeedLocked = 24;
constexpr std::uint64_t kCollapse = 25;

enum class Advice {
  of_mappings,  // the kernel remembers it, and it does not matter to pages
  idle,         // makes no difference to what is adopted
  discard,      // zeros at the next touch
  populate,
  other,  // what the kernel makes of what is there: guards, a child that finds it empty, and what is not known yet
};

Advice kind_of(std::uint64_t advice) {
  switch (advice) {
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_DONTFORK:
    case MADV_DOFORK:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_KEEPONFORK: return Advice::of_mappings;
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_WILLNEED:
    case MADV_COLD:
    case MADV_PAGEOUT:
    case kCollapse: return Advice::idle;
    case MADV_FREE:
    case MADV_DONTNEED:
    case kDontNeedLocked: return Advice::discard;  // what is locked is not adopted
    case MADV_POPULATE_READ:
    case MADV_POPULATE_WRITE: return Advice::populate;
    default: return Advice::other;
  }
}

// Whether the kernel would follow it, of this process: asked with a page of our own.
std::int64_t try_on_own(std::uint64_t pidfd, std::uint64_t advice, std::uint64_t flags) noexcept {
  const std::int64_t page = kernel(SYS_mmap, 0, kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                   static_cast<std::uint64_t>(-1));
  if (failed(page)) return page;
  kernel(SYS_munlock, static_cast<std::uint64_t>(page), kPageSize);  // after mlockall() it is
  iovec piece{reinterpret_cast<void*>(page), kPageSize};
  const std::int64_t result =
      kernel(SYS_process_madvise, pidfd, reinterpret_cast<std::uint64_t>(&piece), 1, advice, flags);
  kernel(SYS_munmap, static_cast<std::uint64_t>(page), kPageSize);
  return result;
}

// Brings it here, and has the kernel say what it says: it knows what the program may do there.
std::int64_t populate(PageNo page, std::uint64_t advice) noexcept {
  constexpr int kTries = 100;  // it may leave again meanwhile
  std::int64_t result = -EFAULT;
  for (int i = 0; i < kTries && result == -EFAULT; ++i) {
    (void)make_resident(page, advice != MADV_POPULATE_READ);
    result = kernel(SYS_madvise, reinterpret_cast<std::uint64_t>(page.address()), kPageSize, advice);
  }
  return result;
}

}  // namespace

// What is ours and what is not, in order; ours: f(PageRun), which says what the call is to return. As the kernel, it
// goes on behind holes, and says so.
template <typename Ours>
std::int64_t Layout::advise_parts(std::uint64_t begin, std::uint64_t end, std::uint64_t advice, Ours&& ours) noexcept {
  const bool goes_on = kind_of(advice) != Advice::populate;
  std::int64_t result = 0;
  while (begin < end) {
    Interval next = adopted_.first_in(begin, end);
    if (next.begin == next.end) next = {end, end};
    if (begin < next.begin) {
      const std::int64_t answer = kernel(SYS_madvise, begin, next.begin - begin, advice);
      if (failed(answer)) result = answer;
      if (failed(answer) && (answer != -ENOMEM || !goes_on)) break;
    }
    if (next.begin < next.end) {
      if (const std::int64_t answer = ours(pages_of(next.begin, next.end)); failed(answer)) return answer;
    }
    begin = next.end;
  }
  return result;
}

std::int64_t Layout::advise(std::uint64_t address, std::uint64_t length, std::uint64_t advice) noexcept {
  const Turn turn(mutex_);
  const auto leave_to_kernel = [&] { return kernel(SYS_madvise, address, length, advice); };
  const std::uint64_t end = address + round_up(length);
  const auto ours = adopted_.first_in(address, end);
  if ((address & kPageMask) != 0) return leave_to_kernel();
  if (ours.begin == ours.end) {
    if (kind_of(advice) == Advice::other) strike_out(address, end);
    return leave_to_kernel();
  }
  switch (kind_of(advice)) {
    case Advice::of_mappings: break;
    case Advice::idle: return advise_parts(address, end, advice, [](PageRun) { return std::int64_t{0}; });
    case Advice::discard:
      // Page by page, each under its lock.
      return advise_parts(address, end, advice, [](PageRun pages) {
        with_ours([&] { process.pager->clear(pages); });
        return std::int64_t{0};
      });
    case Advice::populate:
      return advise_parts(address, end, advice, [&](PageRun pages) {
        std::int64_t result = 0;
        for (PageNo page = pages.first; page < pages.end() && !failed(result); page = page + 1)
          result = populate(page, advice);
        return result;
      });
    case Advice::other:
      // Of nothing: whether the kernel knows it.
      if (const std::int64_t known = kernel(SYS_madvise, 0, 0, advice); failed(known)) return known;
      hand_back(address, end);
      break;
  }
  return leave_to_kernel();
}

std::optional<std::int64_t> Layout::advise_pieces(std::uint64_t pidfd, std::uint64_t pieces, std::uint64_t count,
                                                  std::uint64_t advice, std::uint64_t flags) noexcept {
  const Advice kind = kind_of(advice);
  if (kind == Advice::of_mappings || kind == Advice::idle) return std::nullopt;
  // A process takes nothing of another's away, nor does it make its guards.
  if (const std::int64_t tried = try_on_own(pidfd, advice, flags); failed(tried)) return tried;
  if (count > IOV_MAX) return -EINVAL;
  std::int64_t done = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    iovec piece{};
    if (!copy_in(pieces + i * sizeof piece, &piece, sizeof piece)) return done > 0 ? done : -EFAULT;
    const std::int64_t result = advise(reinterpret_cast<std::uint64_t>(piece.iov_base), piece.iov_len, advice);
    if (failed(result)) return done > 0 ? done : result;
    done += static_cast<std::int64_t>(piece.iov_len);
  }
  return done;
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

#include "run/uffd_memory.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <utility>

#include "run/own_descriptors.h"

namespace comex {
namespace {

// As many pages as a fault brings along at most; read only, so it costs one page of local memory.
constexpr std::size_t kZeros = 64;
alignas(kPageSize) constinit std::array<std::byte, kZeros * kPageSize> zeros{};

std::uint64_t start_of(PageRun pages) {
  return pages.first.value << kPageShift;
}
std::uint64_t bytes_of(PageRun pages) {
  return pages.count << kPageShift;
}

Errc reason(int error) {
  switch (error) {
    case ENOENT:
    case ESRCH:
    case EINVAL:
    case EFAULT: return Errc::invalid;
    case ENOMEM: return Errc::no_memory;
    case EEXIST: return Errc::busy;
    default: return Errc::io;
  }
}

// Newer than some headers: Linux 6.8.
constexpr std::uint64_t kFeatureMove = 1 << 16;
struct MoveRequest {
  std::uint64_t to;
  std::uint64_t from;
  std::uint64_t bytes;
  std::uint64_t mode;
  std::int64_t moved;
};
constexpr std::uint64_t kMoveOverHoles = 1 << 1;  // UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES
constexpr unsigned long kMove = _IOWR(UFFDIO, 0x05, MoveRequest);
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE

// `user_only`: a fault inside a system call is an error of that call, as it is under SIGBUS delivery anyway. Nobody
// needs a right for that.
int open_uffd(bool user_only) {
  auto direct = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  if (direct < 0 && errno == EPERM && user_only) {
    direct = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  }
  if (direct >= 0 || errno != EPERM) return direct;
  // Where the system call is reserved, the device's permissions say who may.
  const int device = ::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  if (device < 0) return -1;
  const int made = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
  close(device);
  return made;
}

bool read_through(int mem, PageNo page, std::byte* to) {
  // Not pread(): inside a program that is the gate's (run/runtime/direct.h).
  return syscall(SYS_pread64, mem, to, kPageSize, page.address()) == static_cast<long>(kPageSize);
}

// Systems may be told that even this file keeps to what a mapping allows; or there is no /proc.
int open_through() {
  const int mem = ::open("/proc/thread-self/mem", O_RDONLY | O_CLOEXEC);
  if (mem < 0) return -1;
  void* const page = mmap(nullptr, 2 * kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool works = false;
  if (page != MAP_FAILED) {
    auto* const bytes = static_cast<std::byte*>(page);
    bytes[0] = std::byte{1};
    works = mprotect(page, kPageSize, PROT_NONE) == 0 && read_through(mem, PageNo::of(page), bytes + kPageSize) &&
            bytes[kPageSize] == std::byte{1};
    munmap(page, 2 * kPageSize);
  }
  if (works) return mem;
  close(mem);
  return -1;
}

}  // namespace

Errc UffdMemory::open(Delivery delivery, bool old_kernel) noexcept {
  if (const Errc opened = open_userfaultfd(delivery, old_kernel); opened != Errc::ok) return opened;
  set_up_shelves();
  if (delivery == Delivery::message) expect_pins();
  through_ = own_descriptors.adopt(open_through());
  if (old_kernel) return Errc::ok;
  // Newer kernels let a process discard many ranges of its own with one call, and one shootdown.
  const auto self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  const iovec nothing{};
  if (self >= 0 && syscall(SYS_process_madvise, self, &nothing, 0, MADV_DONTNEED, 0) == 0) {
    self_ = own_descriptors.adopt(self);
  } else if (self >= 0) {
    ::close(self);
  }
  return Errc::ok;
}

Errc UffdMemory::open_userfaultfd(Delivery delivery, bool old_kernel) noexcept {
  const int uffd = open_uffd(delivery == Delivery::inline_signal);
  if (uffd < 0) return errno == EPERM || errno == EACCES ? Errc::denied : Errc::unsupported;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  api.features |= delivery == Delivery::inline_signal ? UFFD_FEATURE_SIGBUS : UFFD_FEATURE_THREAD_ID;
  const std::uint64_t least = api.features;
  api.features |= kFeatureMove;
  moves_ = !old_kernel && ioctl(uffd, UFFDIO_API, &api) == 0;
  if (!moves_) {
    api = uffdio_api{.api = UFFD_API, .features = least, .ioctls = 0};
    if (ioctl(uffd, UFFDIO_API, &api) != 0) {
      ::close(uffd);
      return Errc::unsupported;
    }
  }
  uffd_ = own_descriptors.adopt(uffd);
  delivery_ = delivery;
  return Errc::ok;
}

void UffdMemory::close() noexcept {
  for (const int fd : {uffd_, self_, through_}) {
    own_descriptors.drop(fd);
    if (fd >= 0) ::close(fd);
  }
  uffd_ = self_ = through_ = -1;
}

void UffdMemory::become(UffdMemory& next) noexcept {
  close();
  delivery_ = next.delivery_;
  uffd_ = std::exchange(next.uffd_, -1);
  self_ = std::exchange(next.self_, -1);
  through_ = std::exchange(next.through_, -1);
  moves_ = next.moves_;
  shelves_ = next.shelves_;
  if (next.expects_pins()) expect_pins();
}

Errc UffdMemory::enlist(PageRun pages) noexcept {
  // Huge pages would be filled behind our back, and cost a split for each page that goes.
  madvise(pages.first.address(), bytes_of(pages), MADV_NOHUGEPAGE);
  uffdio_register request{};
  request.range = {start_of(pages), bytes_of(pages)};
  request.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP;
  return ioctl(uffd_, UFFDIO_REGISTER, &request) == 0 ? Errc::ok : reason(errno);
}

Errc UffdMemory::dismiss(PageRun pages) noexcept {
  uffdio_range range{start_of(pages), bytes_of(pages)};
  return ioctl(uffd_, UFFDIO_UNREGISTER, &range) == 0 ? Errc::ok : reason(errno);
}

Errc UffdMemory::place(PageRun pages, const std::byte* from, bool guarded) noexcept {
  uffdio_copy copy{};
  std::uint64_t done = 0;
  while (done < bytes_of(pages)) {
    copy.dst = start_of(pages) + done;
    copy.src = reinterpret_cast<std::uintptr_t>(from) + done;
    copy.len = bytes_of(pages) - done;
    copy.mode = guarded ? UFFDIO_COPY_MODE_WP : 0;
    copy.copy = 0;
    if (ioctl(uffd_, UFFDIO_COPY, &copy) == 0) return Errc::ok;
    const int error = errno;
    if (copy.copy > 0) done += static_cast<std::uint64_t>(copy.copy);
    if (error == EAGAIN) {
      // The layout is being changed this moment (a fork, an mremap); or a piece is done and the rest can follow.
      if (copy.copy <= 0) sched_yield();
      continue;
    }
    // What may have been written since stays.
    if (done > 0 && guarded) {
      const PageRun part{pages.first, done >> kPageShift};
      (void)discard(std::span(&part, 1));
    }
    return reason(error);
  }
  return Errc::ok;
}

Errc UffdMemory::place_zeros(PageRun pages) noexcept {
  while (pages.count > 0) {
    uffdio_copy copy{};
    copy.dst = start_of(pages);
    copy.src = reinterpret_cast<std::uintptr_t>(zeros.data());
    copy.len = std::min<std::uint64_t>(kZeros, pages.count) << kPageShift;
    const int error = ioctl(uffd_, UFFDIO_COPY, &copy) == 0 ? 0 : errno;
    if (error != 0 && error != EAGAIN && error != EEXIST) return reason(error);
    // EEXIST, too, may be of a page behind some that were placed.
    const std::uint64_t placed = copy.copy > 0 ? static_cast<std::uint64_t>(copy.copy) >> kPageShift : 0;
    const std::uint64_t done = placed == 0 && error == EEXIST ? 1 : placed;
    if (done == 0) sched_yield();  // the layout is being changed this moment
    pages = PageRun{pages.first + done, pages.count - done};
  }
  return Errc::ok;
}

// Kernels before 6.3 know no run that lies in several mappings (ENOENT, and nothing is done): it is halved until its
// first part is in one, and then the rest is tried again.
Errc UffdMemory::protect(PageRun pages, std::uint64_t mode) noexcept {
  for (std::uint64_t part = pages.count; pages.count > 0;) {
    uffdio_writeprotect request{};
    request.range = {start_of(pages), part << kPageShift};
    request.mode = mode;
    if (ioctl(uffd_, UFFDIO_WRITEPROTECT, &request) == 0) {
      pages = PageRun{pages.first + part, pages.count - part};
      part = pages.count;
    } else if (errno == EAGAIN) {
      sched_yield();
    } else if (errno == ENOENT && part > 1) {
      part /= 2;
    } else {
      return reason(errno);
    }
  }
  return Errc::ok;
}

Errc UffdMemory::guard(PageRun pages) noexcept {
  return protect(pages, UFFDIO_WRITEPROTECT_MODE_WP);
}

Errc UffdMemory::unguard(PageRun pages) noexcept {
  return protect(pages, 0);
}

// --- seizing ---

void UffdMemory::set_up_shelves() noexcept {
  if (!moves_) return;
  constexpr std::uint64_t kPages = kShelves * kBlockPages;
  // In the child of a fork they are there, but the kernel knows nothing of them.
  if (shelves_ == nullptr) shelves_ = own_.take(kPages * kPageSize);
  if (shelves_ != nullptr && enlist(PageRun{PageNo::of(shelves_), kPages}) != Errc::ok) shelves_ = nullptr;
}

std::byte* UffdMemory::take_shelf() noexcept {
  for (;;) {
    const std::uint32_t taken = shelves_taken_.load(std::memory_order_relaxed);
    const auto free = static_cast<std::uint32_t>(std::countr_one(taken));
    if (free >= kShelves) {
      sched_yield();  // whoever has one is copying a few pages
    } else if ((shelves_taken_.fetch_or(1U << free, std::memory_order_acquire) >> free & 1) == 0) {
      return shelves_ + free * kBatchBytes;
    }
  }
}

void UffdMemory::clear_shelf(std::byte* shelf) noexcept {
  madvise(shelf, kBatchBytes, MADV_DONTNEED);
  const auto index = static_cast<std::uint32_t>((shelf - shelves_) / static_cast<std::ptrdiff_t>(kBatchBytes));
  shelves_taken_.fetch_and(~(1U << index), std::memory_order_release);
}

std::uint64_t UffdMemory::move(PageRun from, std::byte* to, std::uint64_t mode, int* error) noexcept {
  std::uint64_t done = 0;
  while (done < bytes_of(from)) {
    MoveRequest request{reinterpret_cast<std::uintptr_t>(to) + done, start_of(from) + done, bytes_of(from) - done, mode,
                        0};
    const int result = ioctl(uffd_, kMove, &request);
    *error = errno;
    if (request.moved > 0) done += static_cast<std::uint64_t>(request.moved);
    if (result == 0) break;
    if (*error != EAGAIN) break;
    if (request.moved <= 0) sched_yield();
  }
  return done >> kPageShift;
}

// Up to which of the pages from there on something is in memory.
std::uint64_t UffdMemory::reached(std::byte* from, std::uint64_t most) noexcept {
  std::array<unsigned char, kBlockPages> here{};
  if (mincore(from, most * kPageSize, here.data()) != 0) return 0;
  while (most > 0 && (here[most - 1] & 1) == 0) --most;
  return most;
}

// Those of the run that are not wanted are leaving, or not there. They are moved along if they can be.
void UffdMemory::seize_run(PageRun run, Slots wanted, Seized& seized) noexcept {
  const PageNo first = seized.block.first();
  PageNo unshared = run.first;  // up to here
  while (run.count > 0) {
    const auto slot = static_cast<std::uint32_t>(run.first - first);
    const PageRun one{run.first, 1};
    std::byte* const to = seized.shelf + slot * kPageSize;
    int error = 0;
    std::uint64_t done = move(run, to, kMoveOverHoles, &error);
    if (done == 0 && error == EINVAL)
      done = move(one, to, kMoveOverHoles, &error);  // the run may lie in several mappings
    // Linux 6.18 moves pages of a huge page that another thread is moving from, too, and then says that they were there
    // before. The shelf was empty: what is there was moved.
    if (done == 0 && error == EEXIST) done = reached(to, run.count);
    seized.moved |= slots_below(static_cast<std::uint32_t>(done)) << slot;
    if (done == 0 && (wanted >> slot & 1) == 0) {
      const auto others = static_cast<std::uint64_t>(std::countr_zero(wanted >> slot));
      done = std::min(others, run.count);
    } else if (done == 0 && error == EBUSY && run.first >= unshared) {
      // Pinned; or shared with a relative since a fork, to be copied when it is written to. If it is busy still when
      // that has been done, it is pinned. Not those that are leaving: to write to them is a fault, which waits for us,
      // as would be to write to one that was guarded along with others.
      const PageRun alike{run.first, std::min<std::uint64_t>(run.count, std::countr_one(wanted >> slot))};
      (void)unguard(alike);
      madvise(alike.first.address(), bytes_of(alike), kPopulateWrite);
      unshared = alike.end();
    } else if (done == 0) {
      // Not writable, say: nobody can pin it in order to write.
      if (error != EBUSY && guard(one) == Errc::ok) {
        seized.pages |= Slots{1} << slot;
        seized.bytes[slot] = run.first.address();
      }
      done = 1;
    }
    run = PageRun{run.first + done, run.count - done};
  }
}

Seized UffdMemory::seize(BlockNo block, Slots locked, Slots wanted, Slots leaving, Slots beside) noexcept {
  // Each run of pages that are there is a shootdown when it is moved; a guard is one for the whole block.
  const Slots here = wanted | leaving;
  const bool scattered = (here & ~(here << 1)) != (here & -here);
  if (!sees_pins() || (scattered && !expects_pins())) {
    return Memory::seize(block, locked, wanted, leaving, expects_pins() ? 0 : beside);
  }
  Seized seized{.block = block, .shelf = take_shelf()};
  for_each_run(block, locked, wanted | leaving, [&](PageRun run) { seize_run(run, wanted, seized); });
  const Slots moved = seized.moved & wanted;
  seized.pages |= moved;
  for_each_slot(moved, [&](std::uint32_t slot) { seized.bytes[slot] = seized.shelf + slot * kPageSize; });
  return seized;
}

void UffdMemory::release(const Seized& seized, Slots back) noexcept {
  Memory::release(seized, back & ~seized.moved);
  if (seized.shelf == nullptr) return;
  for_each_run(seized.block, back & seized.moved, back & seized.moved, [&](PageRun run) {
    // The program may have forbidden itself to write there meanwhile, and then the kernel does not move.
    while (run.count > 0) {
      int error = 0;
      const PageNo from = PageNo::of(seized.shelf) + (run.first - seized.block.first());
      std::uint64_t done = move(PageRun{from, run.count}, run.first.address(), 0, &error);
      if (done == 0 && place(PageRun{run.first, 1}, from.address(), false) == Errc::ok) done = 1;
      if (done == 0) sched_yield();  // no memory this moment
      run = PageRun{run.first + done, run.count - done};
    }
  });
  clear_shelf(seized.shelf);
}

Errc UffdMemory::peek(PageNo page, std::byte* to) noexcept {
  if (!can_peek()) return Errc::unsupported;
  return read_through(through_, page, to) ? Errc::ok : Errc::io;
}

// --- messages ---

Errc UffdMemory::next_touch(Touch* touch) noexcept {
  uffd_msg message;
  const ssize_t got = read(uffd_, &message, sizeof message);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Errc::busy;
  if (got != static_cast<ssize_t>(sizeof message)) return Errc::io;
  if (message.event != UFFD_EVENT_PAGEFAULT) return Errc::busy;  // nothing else was asked for
  constexpr std::uint64_t kWrites = UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP;
  const auto& fault = message.arg.pagefault;
  *touch = Touch{PageNo{fault.address >> kPageShift}, (fault.flags & kWrites) != 0, fault.feat.ptid};
  return Errc::ok;
}

void UffdMemory::wake(PageNo page) noexcept {
  uffdio_range range{page.value << kPageShift, kPageSize};
  (void)ioctl(uffd_, UFFDIO_WAKE, &range);  // fails for no address that can be touched
}

Errc UffdMemory::discard(std::span<const PageRun> pages) noexcept {
  constexpr std::size_t kMost = 192;  // with one call, and one shootdown
  while (!pages.empty()) {
    std::array<iovec, kMost> ranges;
    const std::size_t count = std::min(pages.size(), kMost);
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      ranges[i] = iovec{pages[i].first.address(), bytes_of(pages[i])};
      bytes += bytes_of(pages[i]);
    }
    const bool together =
        self_ >= 0 && count > 1 &&
        syscall(SYS_process_madvise, self_, ranges.data(), count, MADV_DONTNEED, 0) == static_cast<long>(bytes);
    for (std::size_t i = 0; i < count && !together; ++i) {
      if (madvise(ranges[i].iov_base, ranges[i].iov_len, MADV_DONTNEED) != 0) return reason(errno);
    }
    pages = pages.subspan(count);
  }
  return Errc::ok;
}

}  // namespace comex

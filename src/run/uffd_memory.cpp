#include "run/uffd_memory.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

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

}  // namespace

Errc UffdMemory::open(Delivery delivery) noexcept {
  const int uffd = open_uffd(delivery == Delivery::inline_signal);
  if (uffd < 0) return errno == EPERM || errno == EACCES ? Errc::denied : Errc::unsupported;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  if (delivery == Delivery::inline_signal) api.features |= UFFD_FEATURE_SIGBUS;
  if (ioctl(uffd, UFFDIO_API, &api) != 0) {
    close(uffd);
    return Errc::unsupported;
  }
  uffd_ = uffd;
  delivery_ = delivery;
  // Newer kernels let a process discard many ranges of its own with one call, and one shootdown.
  const auto self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  const iovec nothing{};
  if (self >= 0 && syscall(SYS_process_madvise, self, &nothing, 0, MADV_DONTNEED, 0) == 0) {
    self_ = self;
  } else if (self >= 0) {
    close(self);
  }
  return Errc::ok;
}

void UffdMemory::forget_parent() noexcept {
  close(uffd_);
  if (self_ >= 0) close(self_);
  uffd_ = self_ = -1;
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
    if (done > 0) {
      const PageRun part{pages.first, done >> kPageShift};
      (void)discard(std::span(&part, 1));
    }
    return reason(error);
  }
  return Errc::ok;
}

Errc UffdMemory::place_zeros(PageRun pages) noexcept {
  for (std::uint64_t done = 0; done < pages.count; done += kZeros) {
    const PageRun part{pages.first + done, std::min<std::uint64_t>(kZeros, pages.count - done)};
    if (const Errc placed = place(part, zeros.data(), false); placed != Errc::ok) return placed;
  }
  return Errc::ok;
}

Errc UffdMemory::protect(PageRun pages, std::uint64_t mode) noexcept {
  uffdio_writeprotect request{};
  request.range = {start_of(pages), bytes_of(pages)};
  request.mode = mode;
  while (ioctl(uffd_, UFFDIO_WRITEPROTECT, &request) != 0) {
    if (errno != EAGAIN) return reason(errno);
    sched_yield();
  }
  return Errc::ok;
}

Errc UffdMemory::guard(PageRun pages) noexcept {
  return protect(pages, UFFDIO_WRITEPROTECT_MODE_WP);
}

Errc UffdMemory::unguard(PageRun pages) noexcept {
  return protect(pages, 0);
}

void UffdMemory::wait_for_touch() const noexcept {
  pollfd waiting{uffd_, POLLIN, 0};
  (void)poll(&waiting, 1, -1);
}

Errc UffdMemory::next_touch(Touch* touch) noexcept {
  uffd_msg message;
  const ssize_t got = read(uffd_, &message, sizeof message);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Errc::busy;
  if (got != static_cast<ssize_t>(sizeof message)) return Errc::io;
  if (message.event != UFFD_EVENT_PAGEFAULT) return Errc::busy;  // nothing else was asked for
  constexpr std::uint64_t kWrites = UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP;
  *touch = Touch{PageNo{message.arg.pagefault.address >> kPageShift}, (message.arg.pagefault.flags & kWrites) != 0};
  return Errc::ok;
}

void UffdMemory::wake(PageNo page) noexcept {
  uffdio_range range{page.value << kPageShift, kPageSize};
  (void)ioctl(uffd_, UFFDIO_WAKE, &range);  // fails for no address that can be touched
}

Errc UffdMemory::discard(std::span<const PageRun> pages) noexcept {
  constexpr std::size_t kMost = 64;
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

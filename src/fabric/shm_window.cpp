#include "fabric/shm_window.h"

#include <sys/mman.h>

#include <cstring>

#include "base/own_place.h"

namespace comex {

Errc ShmWindow::open(int fence, std::uint32_t frames, unsigned slab_order, std::atomic<bool>* mapped) noexcept {
  void* page = mmap(OwnPlace::take(kPageSize), kPageSize, PROT_READ, MAP_SHARED, fence, 0);
  if (page == MAP_FAILED) return Errc::io;
  fence_ = static_cast<const std::atomic<std::uint32_t>*>(page);
  frames_ = frames;
  slab_order_ = slab_order;
  mapped_ = mapped;
  // Whole slabs: the last one may be mapped beyond the last frame.
  const std::size_t bytes = slabs_of(frames, slab_order) << (kPageShift + slab_order);
  void* window = mmap(OwnPlace::take(bytes), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (window == MAP_FAILED) return Errc::io;
  window_ = static_cast<std::byte*>(window);
  return Errc::ok;
}

void ShmWindow::close() noexcept {
  if (window_ != nullptr) munmap(window_, slabs_of(frames_, slab_order_) << (kPageShift + slab_order_));
  if (fence_ != nullptr) munmap(const_cast<std::atomic<std::uint32_t>*>(fence_), kPageSize);
  window_ = nullptr;
  fence_ = nullptr;
}

Errc ShmWindow::map(std::uint32_t slab, int memory) noexcept {
  const std::size_t slab_bytes = kPageSize << slab_order_;
  // Populated here, in the background, so that the first copy into a frame takes no page fault.
  void* const got = mmap(window_ + slab * slab_bytes, slab_bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED | MAP_POPULATE, memory, 0);
  if (got == MAP_FAILED) return Errc::io;
  madvise(got, slab_bytes, MADV_DONTDUMP);  // it would be most of a core dump
  mapped_[slab].store(true, std::memory_order_release);
  return Errc::ok;
}

void ShmWindow::unmap(std::uint32_t slab) noexcept {
  if (!mapped_[slab].exchange(false)) return;
  const std::size_t slab_bytes = kPageSize << slab_order_;
  // If this fails the slab stays mapped, unused, until it is mapped anew.
  (void)mmap(window_ + slab * slab_bytes, slab_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

Errc ShmWindow::copy(const Transfer& transfer) const noexcept {
  for (const auto& segment : transfer.segments) {
    if (!mapped(segment.first, segment.count)) return Errc::denied;
    std::byte* remote = window_ + (std::size_t{segment.first.value} << kPageShift);
    const std::size_t bytes = std::size_t{segment.count} << kPageShift;
    if (transfer.direction == Direction::read) {
      std::memcpy(segment.local, remote, bytes);
    } else {
      std::memcpy(remote, segment.local, bytes);
    }
  }
  // After the copy, and not to be moved before it: if the node took anything away meanwhile, the word was set earlier.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return fenced() ? Errc::fenced : Errc::ok;
}

bool ShmWindow::mapped(FrameNo first, std::uint32_t count) const noexcept {
  const std::uint64_t end = std::uint64_t{first.value} + count;
  if (window_ == nullptr || end > frames_) return false;
  const std::uint64_t last_slab = (end - 1) >> slab_order_;
  for (std::uint64_t slab = first.value >> slab_order_; slab <= last_slab; ++slab) {
    if (!mapped_[slab].load(std::memory_order_acquire)) return false;
  }
  return true;
}

}  // namespace comex

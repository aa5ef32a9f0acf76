// The memory of a node on this host as a process sees it: addresses as large as the node's arena, in which the slabs
// are mapped that the process may use, and the fence page. What ShmLink and a process that was handed slabs by another
// (run/outpost/outpost.h) have in common.
//
//   window (as large as the node's arena)    [ - | slab 1 | - | - | slab 4 | slab 5 | - ... ]
//
// Fencing: the node sets the word in the fence page before it takes a slab away and lets its memory go. A copy is
// followed by a look at that word, so pages that were taken away (they read as zeros) are never passed on as data. See
// "Fencing on shared memory" in docs/design-notes.md.
//
// Thread safety: copy() and fenced() from any thread; open(), map() and unmap() by one thread at a time. A slab must
// not be unmapped or replaced while somebody copies to or from it. Fault path: all functions; nothing is allocated.
// Errc::io leaves errno as the system call set it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/expected.h"
#include "fabric/transfer.h"

namespace comex {

class ShmWindow {
 public:
  ShmWindow() = default;
  ~ShmWindow() { close(); }
  ShmWindow(const ShmWindow&) = delete;
  ShmWindow& operator=(const ShmWindow&) = delete;

  [[nodiscard]] static std::size_t slabs_of(std::uint32_t frames, unsigned slab_order) noexcept {
    return (std::size_t{frames} + (std::size_t{1} << slab_order) - 1) >> slab_order;
  }

  // `mapped` has slabs_of() flags, all false, and outlives the window. The descriptor is not needed afterwards.
  Errc open(int fence, std::uint32_t frames, unsigned slab_order, std::atomic<bool>* mapped) noexcept;
  void close() noexcept;

  // Maps a slab, in place of what was there. The descriptor is not needed afterwards.
  Errc map(std::uint32_t slab, int memory) noexcept;
  void unmap(std::uint32_t slab) noexcept;

  // REQUIRES: transfer.check() is ok. Errc::denied if a slab is not mapped, Errc::fenced if the copy is worth nothing.
  Errc copy(const Transfer& transfer) const noexcept;
  [[nodiscard]] bool fenced() const noexcept {
    return fence_ != nullptr && fence_->load(std::memory_order_acquire) != 0;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return std::size_t{frames_} << kPageShift; }

 private:
  [[nodiscard]] bool mapped(FrameNo first, std::uint32_t count) const noexcept;

  std::byte* window_ = nullptr;
  const std::atomic<std::uint32_t>* fence_ = nullptr;
  std::atomic<bool>* mapped_ = nullptr;  // by slab; release after mapping, acquire before copying
  std::uint32_t frames_ = 0;
  unsigned slab_order_ = 0;
};

}  // namespace comex

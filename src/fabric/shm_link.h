// unix://: the memory node is on this host and its memory is mapped in, so this process copies pages itself and the
// node's process sleeps.
//
//   window_ (as large as the node's arena)   [ - | slab 1 | - | - | slab 4 | slab 5 | - ... ]
//                                                 only slabs of which this client holds frames are mapped
//
// Fencing: the node sets the word in the fence page before it takes a slab away and lets its memory go. A copy is
// followed by a look at that word, so pages that were taken away (they read as zeros) are never passed on as data. See
// "Fencing on shared memory" in docs/design-notes.md.
//
// Invariant: a slab is mapped exactly while held_[slab] > 0. The node replaces the memory of a slab only when nobody
// holds a frame of it, so what is mapped here is never the memory of a slab's former life.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "fabric/channel_link.h"

namespace comex {

class ShmLink final : public ChannelLink {
 public:
  static Expected<std::unique_ptr<Link>> open(const Url& url, const LinkOptions& options);
  ~ShmLink() override;

  void submit(Transfer& transfer) noexcept override;
  void progress() noexcept override {}
  Errc wait(Transfer& transfer) noexcept override { return transfer.result(); }
  [[nodiscard]] Errc broken() const noexcept override;
  void sever(Errc why) noexcept override;
  Expected<void> reach(std::span<const Extent> extents) override;
  void forget(std::span<const Extent> extents) noexcept override;

 private:
  using ChannelLink::ChannelLink;
  Expected<void> set_up_window(Fd fence);
  Expected<void> map_slabs(std::span<const std::uint32_t> slabs);
  [[nodiscard]] bool mapped(FrameNo first, std::uint32_t count) const noexcept;
  Errc copy(const Transfer& transfer) noexcept;

  std::atomic<Errc> severed_{Errc::ok};
  std::byte* window_ = nullptr;
  std::size_t window_bytes_ = 0;
  const std::atomic<std::uint32_t>* fence_ = nullptr;
  std::unique_ptr<std::atomic<bool>[]> mapped_;  // by slab; release after mapping, acquire before copying
  std::mutex reach_mutex_;                       // guards held_ and the mappings; taken by reach and forget only
  std::vector<std::uint32_t> held_;              // frames held, by slab
};

}  // namespace comex

// unix://: the memory node is on this host and its memory is mapped in (shm_window.h), so this process copies pages
// itself and the node's process sleeps.
//
// Invariant: a slab is mapped exactly while held_[slab] > 0. The node replaces the memory of a slab only when nobody
// holds a frame of it, so what is mapped here is never the memory of a slab's former life.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "fabric/channel_link.h"
#include "fabric/shm_window.h"

namespace comex {

class ShmLink final : public ChannelLink {
 public:
  static Expected<std::unique_ptr<Link>> open(const Url& url, const LinkOptions& options);

  void submit(Transfer& transfer) noexcept override;
  void progress() noexcept override {}
  Errc wait(Transfer& transfer) noexcept override { return transfer.result(); }
  [[nodiscard]] Errc broken() const noexcept override;
  void sever(Errc why) noexcept override;
  Expected<void> reach(std::span<const Extent> extents) override;
  void forget(std::span<const Extent> extents) noexcept override;
  Expected<Fd> export_fence() override;
  Expected<SlabExport> export_slab(std::uint32_t slab) override;

 private:
  ShmLink(Opened opened, const LinkOptions& options)
      : ChannelLink(std::move(opened), options), exportable_(options.exportable) {}
  Expected<void> set_up_window(Fd fence);
  Expected<void> map_slabs(std::span<const std::uint32_t> slabs);

  const bool exportable_;
  std::atomic<Errc> severed_{Errc::ok};
  std::unique_ptr<std::atomic<bool>[]> mapped_;  // the window's
  ShmWindow window_;
  std::mutex reach_mutex_;           // guards held_ and the mappings; taken by reach and forget only
  std::vector<std::uint32_t> held_;  // frames held, by slab

  Fd fence_;                         // kept if exportable
  std::mutex exports_mutex_;         // guards exports_; never held across a call
  std::vector<SlabExport> exports_;  // by slab, if exportable
};

}  // namespace comex

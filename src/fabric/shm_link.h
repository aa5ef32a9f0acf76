// unix://: the memory node is on this host and its memory is mapped in (shm_window.h), so this process copies pages
// itself and the node's process sleeps.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "fabric/shm_window.h"
#include "fabric/slab_link.h"

namespace comex {

class ShmLink final : public SlabLink {
 public:
  static Expected<std::unique_ptr<Link>> open(const Url& url, const LinkOptions& options);

  void submit(Transfer& transfer) noexcept override;
  void progress() noexcept override {}
  Errc wait(Transfer& transfer) noexcept override { return transfer.result(); }
  [[nodiscard]] Errc broken() const noexcept override;
  void sever(Errc why) noexcept override;
  Expected<Fd> export_fence() override;
  Expected<SlabExport> export_slab(std::uint32_t slab) override;

 private:
  ShmLink(Opened opened, const LinkOptions& options)
      : SlabLink(std::move(opened), options), exportable_(options.exportable) {}
  Expected<void> set_up_window(Fd fence);
  Expected<void> open_slabs(std::span<const std::uint32_t> slabs) override;
  void close_slab(std::uint32_t slab) noexcept override;

  const bool exportable_;
  std::atomic<Errc> severed_{Errc::ok};
  std::unique_ptr<std::atomic<bool>[]> mapped_;  // the window's
  ShmWindow window_;

  Fd fence_;                         // kept if exportable
  std::mutex exports_mutex_;         // guards exports_; never held across a call
  std::vector<SlabExport> exports_;  // by slab, if exportable
};

}  // namespace comex

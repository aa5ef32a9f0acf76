// rdma://: the device reads and writes the node's frames (rdma_lane.h); nobody at the node runs. Control calls are
// messages on a connection of their own (rdma_stream.h).
#pragma once

#include <memory>
#include <vector>

#include "fabric/lane_set.h"
#include "fabric/rdma_keys.h"
#include "fabric/rdma_lane.h"
#include "fabric/slab_link.h"

namespace comex {

class RdmaLink final : public SlabLink {
 public:
  static Expected<std::unique_ptr<Link>> open(const Url& url, const LinkOptions& options);
  ~RdmaLink() override;

  void submit(Transfer& transfer) noexcept override;
  void progress() noexcept override;
  Errc wait(Transfer& transfer) noexcept override;
  [[nodiscard]] Errc broken() const noexcept override { return lanes_.broken(); }
  void sever(Errc why) noexcept override;

 private:
  RdmaLink(Opened opened, const LinkOptions& options);
  Expected<void> add_lane(const Url& url, const LinkOptions& options, const std::shared_ptr<RdmaDomain>& domain);
  Expected<void> open_slabs(std::span<const std::uint32_t> slabs) override;
  void close_slab(std::uint32_t slab) noexcept override { keys_.close(slab); }
  // Lanes that failed take the control connection with them: whoever waits there hears of it at once.
  void hang_up_if_broken() noexcept;

  RdmaKeys keys_;
  std::vector<std::unique_ptr<RdmaLane>> owned_;
  LaneSet lanes_;
};

// A stream to the node, connected: for control calls, or, for `client`, one that is to become a lane.
Expected<std::unique_ptr<Stream>> open_rdma_stream(const Url& url, const LinkOptions& options,
                                                   std::shared_ptr<RdmaDomain> domain, ClientId client,
                                                   const Deadline& deadline);

}  // namespace comex

// rdma://: the device reads and writes the node's frames (rdma_lane.h); nobody at the node runs. Control calls are
// messages on a connection of their own (rdma_stream.h).
#pragma once

#include <memory>

#include "fabric/lane_link.h"
#include "fabric/rdma_keys.h"
#include "fabric/rdma_local.h"
#include "fabric/rdma_stream.h"
#include "fabric/slab_link.h"

namespace comex {

class RdmaLink final : public LaneLink<SlabLink> {
 public:
  static Expected<std::unique_ptr<Link>> open(const Url& url, const LinkOptions& options);
  ~RdmaLink() override { sever(Errc::disconnected); }

  void submit(Transfer& transfer) noexcept override;
  Expected<void> enlist(std::span<std::byte> memory) override;
  void delist(std::span<std::byte> memory) noexcept override { local_.remove(memory); }

 private:
  RdmaLink(Opened opened, const LinkOptions& options, std::shared_ptr<RdmaDomain> domain);
  Expected<void> open_slabs(std::span<const std::uint32_t> slabs) override;
  void close_slab(std::uint32_t slab) noexcept override { keys_.close(slab); }

  const bool observes_;
  RdmaKeys keys_;
  RdmaLocal local_;
};

// A stream to the node, connected: for control calls, or, for `client`, one that is to become a lane.
Expected<std::unique_ptr<Stream>> open_rdma_stream(const Url& url, const LinkOptions& options,
                                                   const std::shared_ptr<RdmaDomain>& domain, ClientId client,
                                                   const Deadline& deadline);

}  // namespace comex

// The slabs of a family that came in by RDMA: each is registered, with its device, in a protection domain that only the
// family's lanes are in. See "Who may touch a frame" in docs/design-notes.md.
//
// Thread safety: open() and close() are ordered by the ledger.
#pragma once

#include <map>
#include <memory>

#include "fabric/rdma_domain.h"
#include "node/remote_access.h"

namespace comex {

class RdmaSlabs final : public RemoteAccess {
 public:
  RdmaSlabs(const RdmaLibrary& library, ibv_context* device)
      : device_(device), domain_(std::make_shared<RdmaDomain>(library)) {}

  Expected<wire::SlabKey> open(std::uint32_t slab, std::byte* memory, std::size_t bytes) override;
  void close(std::uint32_t slab) noexcept override { open_.erase(slab); }

  // Lanes are made in it.
  [[nodiscard]] const std::shared_ptr<RdmaDomain>& domain() const { return domain_; }

 private:
  ibv_context* const device_;
  const std::shared_ptr<RdmaDomain> domain_;
  std::map<std::uint32_t, RdmaMemory> open_;  // by slab
};

}  // namespace comex

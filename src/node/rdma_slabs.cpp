#include "node/rdma_slabs.h"

namespace comex {

Expected<wire::SlabKey> RdmaSlabs::open(std::uint32_t slab, std::byte* memory, std::size_t bytes) {
  auto found = open_.find(slab);
  if (found == open_.end()) {
    if (auto domain = domain_->on(device_); !domain) return std::move(domain).error();
    constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    auto registered = domain_->enroll(memory, bytes, kAccess);
    if (!registered) return std::move(registered).error();
    found = open_.emplace(slab, *std::move(registered)).first;
  }
  return wire::SlabKey{reinterpret_cast<std::uintptr_t>(memory), found->second.remote_key()};
}

}  // namespace comex

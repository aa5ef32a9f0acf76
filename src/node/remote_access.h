// Slabs that the clients of one family reach by their network device, without the node's doing. Their keys are of use
// to that family alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/expected.h"
#include "wire/message.h"

namespace comex {

class RemoteAccess {
 public:
  virtual ~RemoteAccess() = default;
  // The key of the slab whose memory this is. The same until close().
  virtual Expected<wire::SlabKey> open(std::uint32_t slab, std::byte* memory, std::size_t bytes) = 0;
  // When it returns the key opens nothing any more, and nothing that was on its way changes the memory or shows it.
  virtual void close(std::uint32_t slab) noexcept = 0;
};

}  // namespace comex

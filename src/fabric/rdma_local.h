// Memory of this process that a link's device knows: pages go straight into it and come straight out of it. See
// Link::enlist().
//
// Thread safety: all functions from any thread. find() allocates nothing, and its lock is held for a look at a few
// entries, never while memory is registered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/mutex.h"
#include "fabric/rdma_domain.h"

namespace comex {

class RdmaLocal {
 public:
  static constexpr std::size_t kMost = 256;  // areas at a time: three for each process under `comex run`

  explicit RdmaLocal(std::shared_ptr<RdmaDomain> domain) : domain_(std::move(domain)) {}

  // REQUIRES: no part of it is known, and a connection has been made in the domain.
  Expected<void> add(std::span<std::byte> memory);
  // Nothing, if it is not known. REQUIRES: no transfer of it is under way.
  void remove(std::span<std::byte> memory) noexcept;
  // The key, if all of it lies in one area.
  [[nodiscard]] std::optional<std::uint32_t> find(const std::byte* memory, std::size_t bytes) noexcept;

 private:
  struct Area {
    std::span<std::byte> memory;
    RdmaMemory registered;
  };

  const std::shared_ptr<RdmaDomain> domain_;
  Mutex mutex_;  // guards all below
  std::array<Area, kMost> areas_;
  std::size_t count_ = 0;
};

}  // namespace comex

// The docks of processes (fabric/dock.h) as the keeper has them: mapped here, and known to the links that move pages to
// and from there. One for each process and link, shared by the lanes between them.
//
// Thread safety: FarDocks: all functions from any thread. FarDock: does not change.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>

#include "base/expected.h"
#include "base/fd.h"
#include "pool/pool.h"

namespace comex {

class FarDock {
 public:
  // `link`: Link::number(). An error if the file is none of a size that cannot change. REQUIRES: the pool outlives it.
  static Expected<std::shared_ptr<FarDock>> open(Pool& pool, NodeId node, std::uint64_t link, const Fd& file);
  // REQUIRES: no transfer of it is under way.
  ~FarDock();
  FarDock(const FarDock&) = delete;
  FarDock& operator=(const FarDock&) = delete;

  [[nodiscard]] std::span<std::byte> memory() const noexcept { return memory_; }

 private:
  FarDock(Pool& pool, NodeId node, std::uint64_t link, std::span<std::byte> memory);

  Pool& pool_;
  const NodeId node_;
  const std::uint64_t link_;
  const std::span<std::byte> memory_;
};

class FarDocks {
 public:
  // REQUIRES: the pool outlives all docks.
  explicit FarDocks(Pool& pool) : pool_(pool) {}

  // The one that a lane of the process already has, or another.
  Expected<std::shared_ptr<FarDock>> open(NodeId node, std::uint64_t link, const Fd& file);

 private:
  using Key = std::tuple<dev_t, ino_t, std::uint64_t>;

  Pool& pool_;
  std::mutex mutex_;                             // guards all below; held while memory is registered
  std::map<Key, std::weak_ptr<FarDock>> docks_;  // those that are gone are taken out when the next is opened
};

}  // namespace comex

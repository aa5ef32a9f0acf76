// The slabs of a node that this client may read and write: where they are in the node's memory, and the keys.
//
// Thread safety: find() from any thread; open() and close() by one thread at a time. A slab must not be closed or
// replaced while somebody uses its key. Fault path: all; nothing is allocated but by the constructor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/units.h"
#include "wire/message.h"
#include "wire/types.h"

namespace comex {

class RdmaKeys {
 public:
  RdmaKeys(std::size_t slabs, unsigned slab_order)
      : slab_order_(slab_order), slabs_(slabs), keys_(std::make_unique<Slab[]>(slabs)) {}

  void open(std::uint32_t slab, const wire::SlabKey& key) noexcept {
    keys_[slab].key = key;
    keys_[slab].open.store(true, std::memory_order_release);
  }
  void close(std::uint32_t slab) noexcept { keys_[slab].open.store(false, std::memory_order_release); }

  // Frames from `first` on that lie together, at most `count`: the address of the first, and the key. `frames` is 0 if
  // they are not this client's.
  struct Found {
    std::uint64_t address = 0;
    std::uint32_t key = 0;
    std::uint32_t frames = 0;
  };
  [[nodiscard]] Found find(FrameNo first, std::uint32_t count) const noexcept {
    const std::uint32_t slab = first.value >> slab_order_;
    if (slab >= slabs_ || !keys_[slab].open.load(std::memory_order_acquire)) return {};
    const std::uint32_t within = first.value - (slab << slab_order_);
    const std::uint32_t rest = (std::uint32_t{1} << slab_order_) - within;
    const wire::SlabKey& key = keys_[slab].key;
    return {key.address + (std::uint64_t{within} << kPageShift), key.key, count < rest ? count : rest};
  }
  [[nodiscard]] bool holds(FrameNo first, std::uint32_t count) const noexcept {
    while (count > 0) {
      const Found found = find(first, count);
      if (found.frames == 0) return false;
      count -= found.frames;
      first = first + found.frames;
    }
    return true;
  }

 private:
  struct Slab {
    std::atomic<bool> open{false};  // release after the key was written, acquire before it is read
    wire::SlabKey key;
  };

  const unsigned slab_order_;
  const std::size_t slabs_;
  const std::unique_ptr<Slab[]> keys_;
};

}  // namespace comex

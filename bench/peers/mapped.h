// memcpy from mapped memory: the floor under every other figure.
//
// The source is a shared mapping of a memfd, as the shm link's is, filled page by page before the first measurement, of
// the same size and picked from in the same random order: caches and TLB miss as often on both sides.
#pragma once

#include "bench/peers/peer.h"

namespace comex::bench {

class Mapped : public Peer {
 public:
  static Expected<std::unique_ptr<Peer>> create(std::uint32_t pages);
  ~Mapped() override;
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  [[nodiscard]] std::string_view name() const override { return kMemcpy; }
  Errc read(std::uint32_t first, std::uint32_t count, std::byte* into) override;
  Errc write(std::uint32_t first, std::uint32_t count, std::byte* from) override;
  Expected<std::unique_ptr<Batches>> batches(Direction direction) override;

 private:
  Mapped(std::byte* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}
  std::byte* memory_;
  std::size_t bytes_;
};

}  // namespace comex::bench

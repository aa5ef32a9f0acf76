// A bare TCP connection on loopback: what the kernel's network stack costs with nothing on top.
//
//   ping-pong   read: 32 bytes there, n pages back; write: 32 bytes and n pages there, 16 bytes back
//   stream      one side sends 256 KiB at a time as fast as it can, the other receives; one connection a thread
//
// The far side is a process of its own with a thread for each connection. Both sides of a ping-pong spin on a
// non-blocking recv where the machine has two cores, and nothing but TCP_NODELAY is set. Pages come from one warm
// buffer, not from a set larger than the cache: this side is given every advantage.
#pragma once

#include <cstdint>

#include "bench/child.h"
#include "bench/peers/peer.h"

namespace comex::bench {

class BareTcp : public Peer {
 public:
  // REQUIRES: this process has one thread (it forks the far side).
  static Expected<std::unique_ptr<Peer>> create();

  [[nodiscard]] std::string_view name() const override { return kBareTcp; }
  Errc read(std::uint32_t first, std::uint32_t count, std::byte* into) override;
  Errc write(std::uint32_t first, std::uint32_t count, std::byte* from) override;
  Expected<std::unique_ptr<Batches>> batches(Direction direction) override;
  [[nodiscard]] bool stores() const override { return false; }

 private:
  BareTcp(Child far_side, std::uint16_t port, Fd ping_pong);
  Child far_side_;
  std::uint16_t port_;
  Fd ping_pong_;
};

}  // namespace comex::bench

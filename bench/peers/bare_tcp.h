// A bare TCP connection on loopback: what the kernel's network stack costs with nothing on top.
//
//   ping-pong   read: 32 bytes there, n pages back; write: 32 bytes and n pages there, 16 bytes back
//   stream      one side sends 256 KiB at a time as fast as it can, the other receives; one connection a thread
//
// The far side is a process of its own with a thread for each connection. Both sides of a ping-pong spin as the links
// of comex do (base/spin.h); a stream sleeps, which is faster. Nothing but TCP_NODELAY is set. The far side's pages
// come from, or go to, any place of a set as large as that of the systems measured beside.
#pragma once

#include <cstdint>

#include "base/spin.h"
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
  SpinPolicy spin_;
};

}  // namespace comex::bench

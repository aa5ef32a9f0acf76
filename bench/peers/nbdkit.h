// nbdkit's memory plugin through libnbd: a RAM disk over the network block device protocol, on TCP loopback. The pages
// are its blocks. Single reads and writes are libnbd's synchronous calls; batches are its asynchronous ones.
#pragma once

#include <string>

#include "bench/child.h"
#include "bench/peers/peer.h"

struct nbd_handle;

namespace comex::bench {

struct NbdCloser {
  void operator()(nbd_handle* handle) const;
};
using NbdHandle = std::unique_ptr<nbd_handle, NbdCloser>;

class Nbdkit : public Peer {
 public:
  // Errc::unsupported when there is no nbdkit in PATH.
  static Expected<std::unique_ptr<Peer>> create(const std::string& folder, std::uint32_t pages);

  [[nodiscard]] std::string_view name() const override { return kNbdkit; }
  Errc read(std::uint32_t first, std::uint32_t count, std::byte* into) override;
  Errc write(std::uint32_t first, std::uint32_t count, std::byte* from) override;
  Expected<std::unique_ptr<Batches>> batches(Direction direction) override;

 private:
  Nbdkit(Child server, std::uint16_t port, NbdHandle handle);
  Child server_;
  std::uint16_t port_;
  NbdHandle handle_;
};

}  // namespace comex::bench

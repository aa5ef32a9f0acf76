// What is left of a client on the Unix socket that has hung up without a farewell. It may have ended, or it has given
// up on a connection that did not answer in time, and comes back on another. Its process tells which: it is watched,
// and the client ends with it. One that lives has the lease to come back, as clients over a network have.
#pragma once

#include <memory>

#include "base/fd.h"
#include "node/ledger.h"
#include "node/peer.h"

namespace comex {

// The process at the other end of a Unix socket.
struct PeerProcess {
  Fd life;            // pidfd: can be read from when it has ended. None if it has, or cannot be seen from here
  bool gone = false;  // it has, for certain
};
PeerProcess peer_process(int socket) noexcept;

class LocalEnd final : public Peer {
 public:
  // `coming`: which coming of the client has hung up. REQUIRES: `process` is one.
  LocalEnd(Fd process, Ledger& ledger, std::shared_ptr<Client> client, std::uint32_t coming)
      : process_(std::move(process)), ledger_(ledger), client_(std::move(client)), coming_(coming) {}

  Want step() noexcept override;
  [[nodiscard]] int fd() const noexcept override { return process_.get(); }
  [[nodiscard]] bool overdue(Clock::time_point) const noexcept override {
    return client_->fenced.load() || client_->coming.load() != coming_;
  }

 private:
  const Fd process_;
  Ledger& ledger_;
  const std::shared_ptr<Client> client_;
  const std::uint32_t coming_;
};

}  // namespace comex

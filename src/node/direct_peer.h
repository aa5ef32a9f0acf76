// A lane on which the network device serves the client by itself. There is nothing to do but to see its end.
#pragma once

#include <memory>

#include "fabric/stream.h"
#include "node/client.h"
#include "node/peer.h"

namespace comex {

class DirectPeer final : public Peer {
 public:
  // `coming`: which coming of the client this lane belongs to.
  DirectPeer(std::shared_ptr<Stream> stream, std::shared_ptr<Client> client, std::uint32_t coming)
      : stream_(std::move(stream)), client_(std::move(client)), coming_(coming) {
    client_->lanes.fetch_add(1);
  }
  ~DirectPeer() override { client_->lanes.fetch_sub(1); }

  Want step() noexcept override {
    std::byte unexpected{};
    const iovec into{&unexpected, 1};
    return stream_->read({&into, 1}).would_block() ? Want::read : Want::close;
  }
  [[nodiscard]] int fd() const noexcept override { return stream_->fd(); }
  [[nodiscard]] bool overdue(Clock::time_point) const noexcept override {
    return client_->fenced.load() || client_->coming.load() != coming_;
  }

 private:
  const std::shared_ptr<Stream> stream_;
  const std::shared_ptr<Client> client_;
  const std::uint32_t coming_;
};

}  // namespace comex

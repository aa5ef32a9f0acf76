// A connection that is shaking hands, and after that one that carries control calls. Small messages, one at a time:
// the next is not read before the reply to the last has been sent.
#pragma once

#include <memory>
#include <vector>

#include "fabric/stream.h"
#include "node/greeter.h"
#include "node/peer.h"

namespace comex {

// How long a peer may take.
struct Patience {
  Millis handshake{5'000};
  Millis message{10'000};
};

class ControlPeer final : public Peer {
 public:
  ControlPeer(std::shared_ptr<Stream> stream, NodeContext& node, Arrival arrival, Patience patience);
  ~ControlPeer() override;

  Want step() noexcept override;  // NOLINT(bugprone-exception-escape)
  [[nodiscard]] int fd() const noexcept override { return stream_->fd(); }
  [[nodiscard]] bool overdue(Clock::time_point now) const noexcept override;
  [[nodiscard]] std::optional<Clock::time_point> greeting_since(bool local) const noexcept override;
  [[nodiscard]] bool greeting() const { return !greeter_.done(); }
  // Pages are moved by the network device, not by us.
  [[nodiscard]] bool direct() const { return greeter_.medium() == Medium::rdma; }

  // What this connection has become: a lane, or what is left of a client that has hung up, which stays on this loop.
  // REQUIRES: step() returned hand_over. Nothing is left of this peer.
  std::unique_ptr<Peer> become();
  [[nodiscard]] bool stays() const { return direct() || hung_up_; }

 private:
  // What one step may take before the loop's other peers have their turn. A grant alone may take longer.
  static constexpr auto kTurn = std::chrono::milliseconds(1);

  // The other side has hung up.
  Want end() noexcept;
  bool receive(bool* complete) noexcept;
  bool send(bool* complete) noexcept;
  void serve();
  Answer answer_call(wire::Type type, wire::ByteView body);
  Answer answer_grant(wire::ByteView body);
  Answer answer_lend(wire::ByteView body);
  Answer answer_map(Client& client, wire::ByteView body);
  Answer answer_status();
  // Pages from node to node, for clients over TCP alone: others' frames are not ours to read and write.
  Answer answer_straight(wire::Type type, wire::ByteView body);
  Answer answer_ticket(wire::ByteView body);
  Answer answer_pull(wire::ByteView body);
  Answer answer_pulled(wire::ByteView body);
  // Lets the device serve a lane that has proved itself, before the client hears that it has.
  Expected<void> open_direct();

  std::shared_ptr<Stream> stream_;
  NodeContext& node_;
  Greeter greeter_;
  Patience patience_;
  Clock::time_point message_deadline_;
  bool closing_ = false;  // after what is in out_
  Fd hung_up_;            // a client that has, on the Unix socket: its process

  wire::Bytes in_;  // the header, then header and body
  std::size_t in_have_ = 0;
  wire::Bytes out_;
  std::size_t out_sent_ = 0;
  std::vector<Fd> out_fds_;
};

}  // namespace comex

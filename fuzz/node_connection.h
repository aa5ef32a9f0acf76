// A client's end of one connection to the node under test.
//
// Bytes are queued with send() and put on the line with deliver(), which then lets the node work until it waits for
// more. Whatever the bytes are, they are read along here by a second, simpler reader of the protocol; so it is known
// which replies must come, in which order, and when the node must close. Replies are checked against NodeWorld's
// account as they arrive, and change it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/memory_stream.h"
#include "fuzz/node_world.h"
#include "node/peer.h"
#include "wire/auth.h"
#include "wire/message.h"

namespace comex::fuzz {

wire::Bytes message(wire::Type type, std::uint32_t tag, wire::ByteView body, std::size_t payload = 0);

class Connection {
 public:
  Connection(NodeWorld& world, Medium medium, uid_t uid);
  ~Connection() { close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  struct Greeting {
    wire::Purpose purpose = wire::Purpose::begin;
    Known* joins = nullptr;         // resume, lane
    KnownTicket* ticket = nullptr;  // pull
    std::uint16_t version_min = wire::kVersion;
    std::uint16_t version_max = wire::kVersion;
    std::string name;
    bool wrong_proof = false;
  };
  // Shakes hands. Checks that the node lets in exactly those who may come in. REQUIRES: nothing was sent before.
  void greet(const Greeting& greeting);

  void send(wire::ByteView bytes) { queued_.insert(queued_.end(), bytes.begin(), bytes.end()); }
  // Up to `most` of the queued bytes.
  void deliver(std::size_t most);
  void deliver() { deliver(queued_.size()); }
  // The client hangs up, after what was delivered.
  void hang_up();
  // The node looks, an hour later, whether this connection has to be closed.
  void look_in_an_hour();
  void close();

  [[nodiscard]] MemoryLine& line() { return *line_; }
  // Holds the node's replies back after so many bytes; MemoryLine::kNoLimit lets all of them through again.
  void allow_replies(std::size_t bytes);
  [[nodiscard]] bool open() const { return peer_ != nullptr; }
  [[nodiscard]] bool greeted() const { return greeted_; }
  [[nodiscard]] bool lane() const { return lane_; }
  [[nodiscard]] Known* client() const { return client_; }  // null: an observer
  [[nodiscard]] std::size_t queued() const { return queued_.size(); }

 private:
  struct Request {
    wire::Header header;
    wire::Bytes body;
    std::vector<Extent> segments;  // lane
    std::uint64_t turn = 0;        // in which it began
  };

  void work();
  // Reads along what is about to be delivered. The pages of writes are overwritten with the family's mark.
  void follow(std::span<std::byte> bytes);
  [[nodiscard]] bool acceptable(const wire::Header& header) const;
  // The client has come back on another connection: nothing that arrives on this one may have an effect.
  [[nodiscard]] bool superseded() const { return client_ != nullptr && client_->coming != coming_; }
  void follow_request();
  void absorb(wire::ByteView replies);
  void check_reply(const Request& request, const wire::Header& header, wire::Bytes body);
  void check_greeting_reply(const Request& request, Errc status);
  void check_control_reply(const Request& request, Errc status, wire::ByteView body);
  void check_lane_reply(const Request& request, const wire::Header& header);
  [[nodiscard]] Errc expected_on_lane(const std::vector<Extent>& segments) const;
  [[nodiscard]] wire::ByteView key_for(const Greeting& greeting) const;
  void come_in(const Greeting& greeting, const wire::SessionKey& session_key, ClientId id);
  [[nodiscard]] Errc expected_at_proof(const Greeting& greeting) const;
  std::optional<wire::Bytes> ask(wire::Type type, wire::ByteView body);

  NodeWorld& world_;
  const Medium medium_;
  const uid_t uid_;
  std::shared_ptr<MemoryLine> line_ = std::make_shared<MemoryLine>();
  std::unique_ptr<Peer> peer_;
  Known* client_ = nullptr;
  const KnownTicket* ticket_ = nullptr;  // what opened this lane, if it is not the client's own
  std::uint32_t coming_ = 0;             // of the client, when this connection was made, or the ticket given
  std::uint16_t version_ = wire::kVersion;
  bool greeted_ = false;
  bool lane_ = false;
  bool proof_is_right_ = false;
  bool held_back_ = false;  // replies were, at some time
  std::uint64_t turn_ = 0;  // of delivering

  wire::Bytes queued_;
  wire::Bytes partial_;        // the request being delivered, without pages
  Request current_;            // once its header and body are there
  std::size_t pages_due_ = 0;  // bytes of its pages that are still to come
  bool malformed_ = false;     // what was delivered is no request: the node must close
  bool must_close_ = false;    // the node has said what ends a connection
  bool hung_up_ = false;       // the client has
  std::deque<Request> pending_;

  wire::Bytes replies_;
  std::size_t page_bytes_due_ = 0;  // of a reply
  Errc last_status_ = Errc::ok;
  wire::Bytes last_body_;
};

}  // namespace comex::fuzz

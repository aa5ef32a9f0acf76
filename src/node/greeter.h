// The node's side of the handshake (wire/auth.h), without sockets: bytes in, bytes out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "node/context.h"
#include "wire/auth.h"
#include "wire/message.h"

namespace comex {

// A reply: its status, its body (a message, or one line for people), and descriptors to send along.
struct Answer {
  Errc status = Errc::ok;
  wire::Bytes body;
  std::vector<Fd> fds;

  static Answer refuse(const Error& error);
  static Answer refuse(Errc code, std::string_view message) { return refuse(Error{code, std::string(message)}); }
};

class Greeter {
 public:
  // `arrival` has what the connection itself shows; name and pid come from the hello.
  Greeter(NodeContext& node, Arrival arrival) : node_(node), arrival_(std::move(arrival)) {}

  // Answers the next message of a handshake. After a refusal the connection must be closed.
  Answer answer(wire::Type type, wire::ByteView body);

  // True once both sides have proved themselves.
  [[nodiscard]] bool done() const { return stage_ == Stage::done; }
  [[nodiscard]] wire::Purpose purpose() const { return hello_.purpose; }
  [[nodiscard]] Medium medium() const { return arrival_.medium; }
  [[nodiscard]] bool from_loopback() const { return arrival_.loopback; }
  // The protocol that both speak. REQUIRES: done().
  [[nodiscard]] std::uint16_t version() const { return version_; }
  // It is for pages from now on. REQUIRES: done().
  [[nodiscard]] bool becomes_lane() const {
    return hello_.purpose == wire::Purpose::lane || hello_.purpose == wire::Purpose::pull;
  }
  // What it may read, if that is all it may. REQUIRES: done().
  [[nodiscard]] const std::shared_ptr<const Ticket>& ticket() const { return ticket_; }
  // The client that this connection now speaks for; null for an observer. REQUIRES: done().
  [[nodiscard]] const std::shared_ptr<Client>& client() const { return client_; }
  // This connection speaks for the client no more: it has come back on another. REQUIRES: done().
  [[nodiscard]] bool superseded() const { return client_ && client_->coming.load() != coming_; }
  [[nodiscard]] std::uint32_t coming() const { return coming_; }

 private:
  enum class Stage { hello, proof, done };
  Answer answer_hello(wire::ByteView body);
  Answer answer_proof(wire::ByteView body);
  [[nodiscard]] bool joins() const { return hello_.purpose == wire::Purpose::resume || becomes_lane(); }
  [[nodiscard]] wire::ByteView secret() const;
  [[nodiscard]] wire::ByteView key() const;
  Expected<void> join();
  Expected<void> join_by_ticket();

  NodeContext& node_;
  Arrival arrival_;
  Stage stage_ = Stage::hello;
  wire::Hello hello_;
  wire::Transcript said_;
  std::uint16_t version_ = wire::kVersion;
  std::shared_ptr<Client> client_;
  std::shared_ptr<const Ticket> ticket_;
  std::uint32_t coming_ = 0;
};

}  // namespace comex

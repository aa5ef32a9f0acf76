#include "node/greeter.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

namespace comex {
namespace {

// Data connections one client may have. Each process of a program under `comex run` has some of its own.
constexpr std::uint32_t kMaxLanesPerClient = 256;

}  // namespace

Answer Answer::refuse(const Error& error) {
  Answer answer;
  answer.status = error.code;
  const auto text = std::as_bytes(std::span(error.message));
  answer.body.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(text.size(), 512)));
  return answer;
}

Answer Greeter::answer(wire::Type type, wire::ByteView body) {
  if (stage_ == Stage::hello && type == wire::Type::hello) return answer_hello(body);
  if (stage_ == Stage::proof && type == wire::Type::proof) return answer_proof(body);
  return Answer::refuse(Errc::invalid, "a connection begins with hello and proof");
}

Answer Greeter::answer_hello(wire::ByteView body) {
  const auto versions = wire::decode_versions(body);
  if (versions && (versions->min > node_.version || versions->max < wire::kOldestVersion)) {
    return Answer::refuse(Errc::version,
                          fmt::format("this node speaks protocol {}, and no older than {}; the client "
                                      "{} to {}: install the same version of comex on both",
                                      node_.version, wire::kOldestVersion, versions->min, versions->max));
  }
  auto hello = wire::decode<wire::Hello>(body);
  if (!hello) return Answer::refuse(Errc::invalid, "malformed hello");
  hello_ = *std::move(hello);
  arrival_.name = hello_.name;
  arrival_.pid = hello_.pid;
  version_ = std::min(node_.version, hello_.version_max);
  said_.hello.assign(body.begin(), body.end());
  said_.hello_reply = wire::encode(wire::HelloReply{version_, node_.boot_id, wire::make_nonce()});
  stage_ = Stage::proof;
  return Answer{Errc::ok, said_.hello_reply, {}};
}

Answer Greeter::answer_proof(wire::ByteView body) {
  const auto proof = wire::decode<wire::Proof>(body);
  if (!proof) return Answer::refuse(Errc::invalid, "malformed proof");
  if (joins()) {
    if (auto joined = join(); !joined) return Answer::refuse(joined.error());
  }
  const auto key = this->key();
  if (!wire::same(proof->mac, wire::client_proof(key, said_))) {
    return Answer::refuse(Errc::denied, "wrong secret: check --secret-file on both sides");
  }
  if (ticket_ && !node_.tickets.redeem(hello_.client.value)) {
    return Answer::refuse(Errc::denied, "the ticket was used");
  }
  if (hello_.purpose == wire::Purpose::begin) {
    const ClientId id = node_.ledger.next_id();
    auto client = node_.ledger.admit(id, wire::session_key(key, said_, id), arrival_);
    if (!client) return Answer::refuse(client.error());
    client_ = *std::move(client);
  }
  if (hello_.purpose == wire::Purpose::resume) {
    // No byte moves on the older connections once this lock has been had.
    const std::unique_lock access(client_->access);
    client_->coming.fetch_add(1);
    client_->cut_direct();
  }
  if (client_) coming_ = ticket_ ? ticket_->coming : client_->coming.load();
  wire::ProofReply reply;
  reply.client = client_ && !ticket_ ? client_->id : ClientId{};
  reply.nid = node_.nid;
  reply.frames = node_.arena.frames();
  reply.slab_order = static_cast<std::uint8_t>(node_.arena.slab_order());
  reply.lease_ms = static_cast<std::uint32_t>(node_.lease.count());
  reply.mac = wire::node_proof(key, said_, reply);
  Answer answer{Errc::ok, wire::encode(reply), {}};
  if (client_ && !ticket_) {
    client_->touch(Clock::now());
    if (client_->medium == Medium::shm) answer.fds.push_back(client_->fence.fd().duplicate());
  }
  stage_ = Stage::done;
  return answer;
}

// On the Unix socket its permissions say who may come in; the secret is for networks.
wire::ByteView Greeter::secret() const {
  if (arrival_.medium == Medium::shm) return {};
  return std::as_bytes(std::span(node_.secret));
}

// What the other side has to know.
wire::ByteView Greeter::key() const {
  if (ticket_) return ticket_->key;
  return client_ ? wire::ByteView(client_->key) : secret();
}

// Whoever has a ticket is not the client that it is of, and does not become it.
Expected<void> Greeter::join_by_ticket() {
  if (arrival_.medium == Medium::tcp) ticket_ = node_.tickets.find(hello_.client.value, Clock::now());
  if (!ticket_) return Error{Errc::denied, "there is no such ticket"};
  client_ = ticket_->client;
  return {};
}

Expected<void> Greeter::join() {
  if (hello_.purpose == wire::Purpose::pull) return join_by_ticket();
  client_ = node_.ledger.find(hello_.client);
  if (!client_ || client_->fenced.load()) {
    return Error{Errc::fenced, "the session has ended and its frames are gone; begin a new one"};
  }
  // A key that leaked must not open another user's memory, nor cross from one medium to the other.
  if (client_->medium != arrival_.medium || (client_->medium == Medium::shm && client_->uid != arrival_.uid)) {
    return Error{Errc::denied, "the session belongs to somebody else"};
  }
  if (hello_.purpose == wire::Purpose::lane) {
    if (client_->medium == Medium::shm) return Error{Errc::invalid, "a client that maps memory needs no lanes"};
    if (client_->lanes.load() >= kMaxLanesPerClient) {
      return Error{Errc::busy, fmt::format("a client may have {} lanes", kMaxLanesPerClient)};
    }
  }
  return {};
}

}  // namespace comex

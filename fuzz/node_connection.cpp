#include "fuzz/node_connection.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz/require.h"
#include "node/control_peer.h"

namespace comex::fuzz {

using wire::Header;
using wire::Purpose;
using wire::Type;

wire::Bytes message(Type type, std::uint32_t tag, wire::ByteView body, std::size_t payload) {
  Header header;
  header.body = static_cast<std::uint32_t>(body.size());
  header.type = static_cast<std::uint16_t>(type);
  header.tag = tag;
  header.payload = static_cast<std::uint32_t>(payload);
  const auto raw = std::as_bytes(std::span(&header, 1));
  wire::Bytes bytes(raw.begin(), raw.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  bytes.resize(bytes.size() + payload);
  return bytes;
}

Connection::Connection(NodeWorld& world, Medium medium, uid_t uid) : world_(world), medium_(medium), uid_(uid) {
  peer_ = std::make_unique<ControlPeer>(std::make_unique<MemoryStream>(line_), world.node(),
                                        Arrival{medium, uid, 0, "", "memory", nullptr}, Patience{});
}

// --- the handshake ---

std::optional<wire::Bytes> Connection::ask(Type type, wire::ByteView body) {
  send(message(type, static_cast<std::uint32_t>(type) * 1000, body));
  deliver();
  if (last_status_ != Errc::ok) return std::nullopt;
  return std::move(last_body_);
}

void Connection::greet(const Greeting& greeting) {
  wire::Hello hello;
  hello.version_min = greeting.version_min;
  hello.version_max = greeting.version_max;
  hello.purpose = greeting.purpose;
  hello.pid = 42;
  hello.name = greeting.name;
  if (greeting.joins != nullptr) hello.client = greeting.joins->id;
  if (greeting.ticket != nullptr) hello.client = ClientId{greeting.ticket->number};
  hello.nonce.fill(std::byte{0x11});
  wire::Transcript said;
  said.hello = wire::encode(hello);
  auto hello_reply = ask(Type::hello, said.hello);
  const bool speaks = hello.version_min <= wire::kVersion && wire::kOldestVersion <= hello.version_max;
  require(hello_reply.has_value() == speaks, "a common version is found if there is one");
  if (!hello_reply) return;
  said.hello_reply = *std::move(hello_reply);
  version_ = wire::decode<wire::HelloReply>(said.hello_reply)->version;
  require(version_ == std::min(wire::kVersion, hello.version_max), "the latest common version is spoken");

  const wire::ByteView key = key_for(greeting);
  wire::Proof proof{wire::client_proof(key, said)};
  if (greeting.wrong_proof) proof.mac[7] ^= std::byte{1};
  const Errc expected = expected_at_proof(greeting);
  proof_is_right_ = expected == Errc::ok;
  const auto body = ask(Type::proof, wire::encode(proof));
  const bool ran_out = greeting.ticket != nullptr && expected == Errc::ok && world_.tickets_may_run_out();
  require(last_status_ == expected || (ran_out && last_status_ == Errc::denied),
          "the node lets in those who may come in, and nobody else");
  if (!body) return;

  const auto reply = wire::decode<wire::ProofReply>(*body);
  require(reply && wire::same(reply->mac, wire::node_proof(key, said, *reply)), "the node proves itself");
  require(reply->frames == kFrames && reply->slab_order == Arena::kMinSlabOrder, "the node tells its size");
  const bool nobody = greeting.purpose == Purpose::observe || greeting.purpose == Purpose::pull;
  require((reply->client == ClientId{}) == nobody, "only who observes, or comes by a ticket, is nobody");
  come_in(greeting, wire::session_key(key, said, reply->client), reply->client);
}

// On the Unix socket there is no secret.
wire::ByteView Connection::key_for(const Greeting& greeting) const {
  if (greeting.ticket != nullptr) return greeting.ticket->key;
  if (greeting.joins != nullptr) return greeting.joins->key;
  return medium_ == Medium::shm ? wire::ByteView() : std::as_bytes(std::span(world_.node().secret));
}

void Connection::come_in(const Greeting& greeting, const wire::SessionKey& session_key, ClientId id) {
  if (greeting.ticket != nullptr) {
    greeting.ticket->used = true;
    ticket_ = greeting.ticket;
    client_ = ticket_->client;
  }
  if (greeting.joins != nullptr) client_ = greeting.joins;
  if (greeting.purpose == Purpose::begin) client_ = &world_.begun(id, session_key, medium_, uid_);
  if (greeting.purpose == Purpose::resume) ++client_->coming;
  if (client_ != nullptr) coming_ = client_->coming;
}

Errc Connection::expected_at_proof(const Greeting& greeting) const {
  if (const Known* const joins = greeting.joins; joins != nullptr) {
    if (joins->ended) return Errc::fenced;
    if (joins->medium != medium_ || (medium_ == Medium::shm && joins->uid != uid_)) return Errc::denied;
    if (greeting.purpose == Purpose::lane && medium_ == Medium::shm) return Errc::invalid;
  } else if (greeting.purpose == Purpose::resume || greeting.purpose == Purpose::lane) {
    return Errc::fenced;  // of nobody
  }
  if (greeting.wrong_proof) return Errc::denied;
  if (greeting.purpose == Purpose::pull) {
    const bool good = greeting.ticket != nullptr && greeting.ticket->is_good();
    return good && medium_ == Medium::tcp ? Errc::ok : Errc::denied;
  }
  const bool full = world_.live_clients() >= kMaxClients;
  return greeting.purpose == Purpose::begin && full ? Errc::busy : Errc::ok;
}

// --- what goes to the node ---

void Connection::deliver(std::size_t most) {
  if (!open()) return;
  ++turn_;
  const auto count = std::min(most, queued_.size());
  const auto piece = std::span(queued_).first(count);
  follow(piece);
  line_->send(piece);
  queued_.erase(queued_.begin(), queued_.begin() + static_cast<std::ptrdiff_t>(count));
  work();
}

void Connection::hang_up() {
  if (!open()) return;
  ++turn_;
  line_->end();
  line_->allow_writes(MemoryLine::kNoLimit);
  hung_up_ = true;
  work();
}

void Connection::allow_replies(std::size_t bytes) {
  held_back_ = held_back_ || bytes != MemoryLine::kNoLimit;
  line_->allow_writes(bytes);
  if (!open()) return;
  ++turn_;
  work();
}

// Lets the node work until it waits for what only this end can do.
void Connection::work() {
  // A lane may spend a whole step on requests that it has already read, with replies that it has room to keep: nothing
  // moves on the line. After that its room is used up.
  constexpr int kMostStepsWithoutMoves = 1;
  int without_moves = 0;
  for (;;) {
    const auto before = line_->moved();
    const Peer::Want want = peer_->step();
    absorb(line_->take());
    if (want == Peer::Want::close) {
      require(malformed_ || must_close_ || hung_up_ || superseded() || (lane_ && held_back_),
              "the node closes a connection for a reason only");
      return close();
    }
    if (want == Peer::Want::hand_over) {
      peer_ = static_cast<ControlPeer&>(*peer_).become();
      lane_ = true;
      continue;
    }
    if (want == Peer::Want::read && !line_->readable()) break;
    if (want == Peer::Want::write && !line_->writable()) return;
    without_moves = line_->moved() == before ? without_moves + 1 : 0;
    require(without_moves <= kMostStepsWithoutMoves, "whoever wants to go on gets on");
  }
  require(!malformed_ && !must_close_ && !hung_up_, "the node closes a connection when it must");
  require(pending_.empty(), "when the node waits for requests it has answered the last");
}

void Connection::follow(std::span<std::byte> bytes) {
  while (!bytes.empty() && !malformed_) {
    if (pages_due_ > 0) {
      const auto count = std::min(pages_due_, bytes.size());
      std::fill_n(bytes.begin(), count, client_->mark);
      if (!superseded()) world_.may_write(*client_, current_.segments);
      bytes = bytes.subspan(count);
      pages_due_ -= count;
      if (pages_due_ == 0) pending_.push_back(std::move(current_));
      continue;
    }
    if (partial_.empty()) current_.turn = turn_;
    const auto size = partial_.size() < Header::kBytes ? Header::kBytes : Header::kBytes + current_.header.body;
    const auto count = std::min(size - partial_.size(), bytes.size());
    partial_.insert(partial_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (partial_.size() < size) return;
    if (size == Header::kBytes) {
      std::memcpy(&current_.header, partial_.data(), Header::kBytes);
      malformed_ = !acceptable(current_.header);
    }
    if (!malformed_ && partial_.size() == Header::kBytes + current_.header.body) follow_request();
  }
}

bool Connection::acceptable(const Header& header) const {
  if (!wire::decode_header(std::span(partial_).first<Header::kBytes>())) return false;
  const auto type = static_cast<Type>(header.type);
  if (lane_) return header.body <= wire::kMaxSegments * sizeof(Extent);
  const auto most = greeted_ ? wire::kMaxBody : wire::kMaxHandshakeBody;
  return header.body <= most && header.payload == 0 && type <= Type::pulled;
}

void Connection::follow_request() {
  current_.body.assign(partial_.begin() + Header::kBytes, partial_.end());
  partial_.clear();
  if (!lane_) return pending_.push_back(std::move(current_));

  const auto type = static_cast<Type>(current_.header.type);
  std::array<Extent, wire::kMaxSegments> segments;
  const auto count = wire::decode_segments(current_.body, segments);
  malformed_ = (type != Type::read && type != Type::write) || !count;
  if (malformed_) return;
  current_.segments.assign(segments.begin(), segments.begin() + static_cast<std::ptrdiff_t>(*count));
  std::size_t bytes = 0;
  for (const auto& extent : current_.segments) bytes += extent.bytes();
  malformed_ = current_.header.payload != (type == Type::write ? bytes : 0);
  malformed_ = malformed_ || (ticket_ != nullptr && type == Type::write);
  if (malformed_) return;
  pages_due_ = current_.header.payload;
  if (pages_due_ == 0) pending_.push_back(std::move(current_));
}

// --- what comes from the node ---

void Connection::absorb(wire::ByteView replies) {
  replies_.insert(replies_.end(), replies.begin(), replies.end());
  wire::ByteView rest(replies_);
  for (;;) {
    const auto pages = std::min(page_bytes_due_, rest.size());
    if (pages > 0) world_.check_sent(*client_, rest.first(pages));
    page_bytes_due_ -= pages;
    rest = rest.subspan(pages);
    if (page_bytes_due_ > 0 || rest.size() < Header::kBytes) break;
    const auto header = wire::decode_header(rest.first<Header::kBytes>());
    require(header.has_value(), "a reply has a proper header");
    require((header->type & wire::kReplyBit) != 0, "a reply says that it is one");
    if (rest.size() < Header::kBytes + header->body) break;
    require(!pending_.empty(), "there is no reply without a request");
    const Request request = std::move(pending_.front());
    pending_.pop_front();
    const auto body = rest.subspan(Header::kBytes, header->body);
    rest = rest.subspan(Header::kBytes + header->body);
    check_reply(request, *header, wire::Bytes(body.begin(), body.end()));
    page_bytes_due_ = header->payload;
  }
  replies_.erase(replies_.begin(), replies_.end() - static_cast<std::ptrdiff_t>(rest.size()));
}

void Connection::check_reply(const Request& request, const Header& header, wire::Bytes body) {
  require(header.type == (request.header.type | wire::kReplyBit), "a reply is of its request's type");
  require(header.tag == request.header.tag, "a reply has its request's tag");
  require(header.status <= static_cast<std::uint16_t>(Errc::unsupported), "a reply's status is known");
  require(!must_close_, "nothing follows what ends a connection");
  if (lane_) return check_lane_reply(request, header);
  require(header.payload == 0, "a control reply has no pages");
  const auto status = static_cast<Errc>(header.status);
  if (status != Errc::ok) require(!body.empty() && body.size() <= 512, "a refusal says why, in one line");
  last_status_ = status;
  last_body_ = std::move(body);
  if (greeted_) return check_control_reply(request, status, last_body_);
  check_greeting_reply(request, status);
}

void Connection::check_greeting_reply(const Request& request, Errc status) {
  must_close_ = status != Errc::ok;
  if (static_cast<Type>(request.header.type) == Type::hello) {
    require(status != Errc::ok || wire::decode<wire::HelloReply>(last_body_), "a reply to hello decodes");
    return;
  }
  greeted_ = status == Errc::ok;
  require(!greeted_ || proof_is_right_, "nobody comes in without a proof");
}

void Connection::check_control_reply(const Request& request, Errc status, wire::ByteView body) {
  require(!superseded(), "a connection that was given up has no say");
  const auto type = static_cast<Type>(request.header.type);
  must_close_ = status == Errc::fenced || type == Type::bye;
  if (type == Type::status) {
    const auto reply = wire::decode<wire::StatusReply>(body);
    require(status == Errc::ok && reply && reply->frames == kFrames, "anybody may ask for the status");
    return require(reply->client_count == world_.live_clients(), "the status counts the clients");
  }
  if (type == Type::lend) {
    const bool right = wire::decode<wire::Lend>(request.body).has_value();
    return require(status == (right ? Errc::ok : Errc::invalid), "who knows the secret may say how much is lent");
  }
  if (client_ == nullptr) {
    if (type != Type::beat) return require(status == Errc::denied, "an observer may only look");
    return require(status == Errc::ok && wire::decode<wire::NodeLoad>(body), "an observer may ask for the load");
  }
  if (client_->ended) return require(status == Errc::fenced, "a client that has ended is told so");

  switch (type) {
    case Type::grant: {
      const auto asked = wire::decode<wire::Grant>(request.body);
      if (!asked) return require(status == Errc::invalid, "a malformed grant is refused");
      if (status != Errc::ok) return require(status == Errc::no_memory, "a grant is refused for want of memory only");
      const auto reply = wire::decode<wire::GrantReply>(body);
      require(reply.has_value(), "a reply to grant decodes");
      return world_.granted(*client_, *asked, reply->extents, pending_.empty());
    }
    case Type::give_back: {
      const auto asked = wire::decode<wire::GiveBack>(request.body);
      if (!asked) return require(status == Errc::invalid, "a malformed return is refused");
      Known after = *client_;
      bool all = true;
      for (const auto& extent : asked->extents) {
        all = all && after.holds(extent);
        for (std::uint64_t f = extent.first.value; all && f < extent.end(); ++f) after.held.reset(f);
      }
      require(status == (all ? Errc::ok : Errc::denied), "frames are given back once, by who holds them");
      if (!all) return;
      for (const auto& extent : asked->extents) world_.given_back(*client_, {extent});
      return;
    }
    case Type::share: {
      const bool full = world_.live_clients() >= kMaxClients;
      require(status == (full ? Errc::busy : Errc::ok), "a client can be shared while there is room");
      if (full) return;
      const auto reply = wire::decode<wire::ShareReply>(body);
      require(reply.has_value(), "a reply to share decodes");
      world_.shared(*client_, *reply);
      return;
    }
    case Type::map: {
      const auto asked = wire::decode<wire::Map>(request.body);
      if (!asked) return require(status == Errc::invalid, "a malformed map is refused");
      const bool may = client_->medium == Medium::shm &&
                       std::all_of(asked->slabs.begin(), asked->slabs.end(),
                                   [&](std::uint32_t slab) { return client_->holds_any_of_slab(slab); });
      require(status == (may ? Errc::ok : Errc::denied), "slabs are mapped by their holders on this host");
      for (const auto slab : asked->slabs) {
        if (may) world_.mapped(*client_, slab);
      }
      return;
    }
    case Type::beat: return require(status == Errc::ok && wire::decode<wire::NodeLoad>(body), "a beat is answered");
    case Type::asked:
      return require(status == Errc::ok && wire::decode<wire::AskedReply>(body), "what is asked for is told");
    case Type::ticket: {
      const auto asked = wire::decode<wire::Ticket>(request.body);
      const bool may = asked && client_->medium == Medium::tcp && version_ >= wire::kStraightVersion;
      if (!may) return require(status == Errc::invalid, "tickets are for those who may have them");
      const bool all = std::all_of(asked->extents.begin(), asked->extents.end(),
                                   [&](const Extent& extent) { return client_->holds(extent); });
      if (!all) return require(status == Errc::denied, "a ticket is for frames that are held");
      if (status == Errc::busy) return;
      const auto reply = wire::decode<wire::TicketReply>(body);
      require(status == Errc::ok && reply, "a ticket is given to the holder");
      return world_.gave_ticket(*client_, asked->extents, *reply);
    }
    case Type::bye: require(status == Errc::ok, "a farewell is answered"); return world_.ended(*client_);
    default: return require(status == Errc::invalid, "what is no control call is refused");
  }
}

void Connection::check_lane_reply(const Request& request, const Header& header) {
  const auto status = static_cast<Errc>(header.status);
  require(header.body == 0, "a reply about pages has no body");
  require(status == Errc::ok || status == Errc::denied || status == Errc::fenced, "pages are moved or refused");
  const bool read = static_cast<Type>(request.header.type) == Type::read;
  std::size_t bytes = 0;
  for (const auto& extent : request.segments) bytes += extent.bytes();
  require(header.payload == (read && status == Errc::ok ? bytes : 0), "a read that is granted brings its pages");
  // A request that came in pieces, or whose reply had to wait, was judged at a time we cannot tell.
  if (request.turn != turn_ || held_back_) return;
  if (superseded()) return require(status != Errc::ok, "no page moves on a lane that was given up");
  require(status == expected_on_lane(request.segments), "pages are moved exactly if their frames are held");
}

// The first frames that may not be moved decide.
Errc Connection::expected_on_lane(const std::vector<Extent>& segments) const {
  for (const Extent& extent : segments) {
    if (ticket_ != nullptr && !ticket_->opens(extent)) return Errc::denied;
    if (!client_->holds(extent)) return client_->ended ? Errc::fenced : Errc::denied;
  }
  return Errc::ok;
}

// --- its end ---

void Connection::look_in_an_hour() {
  if (!open()) return;
  const bool late = peer_->overdue(Clock::now() + std::chrono::hours(1));
  const bool amid = !partial_.empty() || pages_due_ > 0 || !pending_.empty();
  const bool over = superseded() || (client_ != nullptr && client_->ended) || ticket_ != nullptr;
  const bool expected = !greeted_ || amid || over;
  require(late == expected || held_back_, "connections that are stuck, fenced or given up are closed, others are not");
  if (late) close();
}

void Connection::close() {
  if (!open()) return;
  peer_.reset();  // the client has its lease: that there is no process behind it cannot be seen on this line
}

}  // namespace comex::fuzz

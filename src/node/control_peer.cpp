#include "node/control_peer.h"

#include <poll.h>

#include <cstring>

#include "fabric/address.h"
#include "node/direct_peer.h"
#include "node/lane_peer.h"
#include "node/local_end.h"
#include "node/rdma_door.h"

namespace comex {

using wire::Header;
using wire::Type;

ControlPeer::ControlPeer(std::shared_ptr<Stream> stream, NodeContext& node, Arrival arrival, Patience patience)
    : stream_(std::move(stream)),
      node_(node),
      greeter_(node, std::move(arrival)),
      patience_(patience),
      message_deadline_(Clock::now() + patience.handshake),
      in_(Header::kBytes) {
  node_.greeting_on(greeter_.medium()).fetch_add(1);
}

ControlPeer::~ControlPeer() {
  if (greeting()) node_.greeting_on(greeter_.medium()).fetch_sub(1);
}

// Expected throws only where the other of the two is asked for.
Peer::Want ControlPeer::step() noexcept {  // NOLINT(bugprone-exception-escape)
  const auto turn_ends = Clock::now() + kTurn;
  for (bool first = true; first || Clock::now() < turn_ends; first = false) {
    if (!out_.empty()) {
      bool sent = false;
      if (!send(&sent)) return end();
      if (!sent) return stream_->blocked_on(POLLOUT) == POLLIN ? Want::read : Want::write;
    }
    if (closing_) return stream_->delivered() ? Want::close : Want::read;
    if (greeter_.done() && greeter_.becomes_lane()) return Want::hand_over;
    bool received = false;
    if (!receive(&received)) return end();
    if (!received) return Want::read;
    if (greeter_.done() && greeter_.superseded()) return Want::close;
    serve();
  }
  return Want::again;
}

Peer::Want ControlPeer::end() noexcept {
  const bool speaks = greeter_.done() && greeter_.client() && !greeter_.superseded();
  if (!speaks || greeter_.medium() != Medium::shm || greeter_.client()->fenced.load()) return Want::close;
  PeerProcess process = peer_process(stream_->fd());
  hung_up_ = std::move(process.life);
  if (hung_up_) return Want::hand_over;
  if (process.gone) node_.ledger.end(*greeter_.client());  // otherwise the lease decides
  return Want::close;
}

// Reads the rest of the message, never a byte more. False if the connection must be closed.
bool ControlPeer::receive(bool* complete) noexcept {
  for (;;) {
    if (in_have_ == in_.size()) {
      const auto header = wire::decode_header(std::span(in_).first<Header::kBytes>());
      const auto most = greeter_.done() ? wire::kMaxBody : wire::kMaxHandshakeBody;
      if (!header || header->body > most || header->payload != 0 || (header->type & wire::kReplyBit) != 0) return false;
      if (in_have_ == Header::kBytes + header->body) {
        *complete = true;
        return true;
      }
      in_.resize(Header::kBytes + header->body);
    }
    const iovec iov{in_.data() + in_have_, in_.size() - in_have_};
    const auto result = stream_->read({&iov, 1});
    if (result.error != Errc::ok) return false;
    if (result.would_block()) return true;
    if (in_have_ == 0 && greeter_.done()) message_deadline_ = Clock::now() + patience_.message;
    in_have_ += result.bytes;
  }
}

bool ControlPeer::send(bool* complete) noexcept {
  while (out_sent_ < out_.size()) {
    const iovec iov{out_.data() + out_sent_, out_.size() - out_sent_};
    auto* const socket = out_fds_.empty() ? nullptr : dynamic_cast<SocketStream*>(stream_.get());
    std::vector<int> fds;
    for (const auto& fd : out_fds_) fds.push_back(fd.get());
    const auto result = socket != nullptr ? socket->write_with({&iov, 1}, fds) : stream_->write({&iov, 1});
    if (result.error != Errc::ok) return false;
    if (result.would_block()) return true;
    out_fds_.clear();
    out_sent_ += result.bytes;
  }
  out_.clear();
  out_sent_ = 0;
  *complete = true;
  return true;
}

void ControlPeer::serve() {
  Header header;
  std::memcpy(&header, in_.data(), sizeof header);
  const auto type = static_cast<Type>(header.type);
  const wire::ByteView body = wire::ByteView(in_).subspan(Header::kBytes);
  const bool was_greeting = greeting();
  Answer answer = was_greeting ? greeter_.answer(type, body) : answer_call(type, body);
  if (was_greeting && !greeting()) {
    node_.greeting_on(greeter_.medium()).fetch_sub(1);
    if (direct() && greeter_.purpose() == wire::Purpose::lane) {
      if (const auto opened = open_direct(); !opened) answer = Answer::refuse(opened.error());
    }
  }
  // A refused handshake, a farewell and a fenced client end the connection, once they have been told.
  closing_ = (was_greeting && answer.status != Errc::ok) || answer.status == Errc::fenced || type == Type::bye;

  Header reply;
  reply.body = static_cast<std::uint32_t>(answer.body.size());
  reply.type = header.type | wire::kReplyBit;
  reply.status = static_cast<std::uint16_t>(answer.status);
  reply.tag = header.tag;
  const auto raw = std::as_bytes(std::span(&reply, 1));
  out_.assign(raw.begin(), raw.end());
  out_.insert(out_.end(), answer.body.begin(), answer.body.end());
  out_fds_ = std::move(answer.fds);
  in_.resize(Header::kBytes);
  in_have_ = 0;
}

Answer ControlPeer::answer_call(Type type, wire::ByteView body) {
  if (type == Type::status) return answer_status();
  if (type == Type::beat && !greeter_.client()) return Answer{Errc::ok, wire::encode(node_.ledger.load()), {}};
  if (type == Type::lend) return answer_lend(body);
  if (!greeter_.client()) return Answer::refuse(Errc::denied, "an observer holds no frames");
  Client& client = *greeter_.client();
  if (client.fenced.load()) return Answer::refuse(Errc::fenced, "the lease ended and the frames are gone");
  client.touch(Clock::now());
  switch (type) {
    case Type::grant: return answer_grant(body);
    case Type::give_back: {
      const auto request = wire::decode<wire::GiveBack>(body);
      if (!request) return Answer::refuse(Errc::invalid, "malformed give_back");
      const auto done = node_.ledger.give_back(client, request->extents);
      return done ? Answer{} : Answer::refuse(done.error());
    }
    case Type::share: {
      const auto reply = node_.ledger.share(client);
      return reply ? Answer{Errc::ok, wire::encode(*reply), {}} : Answer::refuse(reply.error());
    }
    case Type::map: return answer_map(client, body);
    case Type::beat: return Answer{Errc::ok, wire::encode(node_.ledger.load_for(client)), {}};
    case Type::asked: return Answer{Errc::ok, wire::encode(wire::AskedReply{node_.ledger.asked_of(client)}), {}};
    case Type::bye: node_.ledger.end(client); return Answer{};
    case Type::ticket:
    case Type::pull:
    case Type::pulled: return answer_straight(type, body);
    default: return Answer::refuse(Errc::invalid, "not a control call");
  }
}

Answer ControlPeer::answer_status() {
  auto status = node_.status();
  if (greeter_.version() < wire::kStraightVersion) status.pages_pulled.reset();
  return Answer{Errc::ok, wire::encode(status), {}};
}

Answer ControlPeer::answer_straight(Type type, wire::ByteView body) {
  if (greeter_.version() < wire::kStraightVersion) return Answer::refuse(Errc::invalid, "not a control call");
  if (node_.tls || greeter_.medium() != Medium::tcp) {
    return Answer::refuse(Errc::invalid, "pages go from node to node over plain TCP only");
  }
  if (type == Type::ticket) return answer_ticket(body);
  return type == Type::pull ? answer_pull(body) : answer_pulled(body);
}

Answer ControlPeer::answer_ticket(wire::ByteView body) {
  auto request = wire::decode<wire::Ticket>(body);
  if (!request) return Answer::refuse(Errc::invalid, "malformed ticket");
  const auto reply =
      node_.tickets.issue(greeter_.client(), greeter_.coming(), std::move(request->extents), Clock::now());
  return reply ? Answer{Errc::ok, wire::encode(*reply), {}} : Answer::refuse(reply.error());
}

Answer ControlPeer::answer_pull(wire::ByteView body) {
  auto request = wire::decode<wire::Pull>(body);
  if (!request || node_.puller == nullptr) return Answer::refuse(Errc::invalid, "malformed pull");
  // What listens on this machine alone is not for those who come from elsewhere.
  if (is_loopback(request->from) && !greeter_.from_loopback()) return Answer::refuse(Errc::denied, "not from there");
  const auto begun = node_.puller->begin(greeter_.client(), greeter_.coming(), *std::move(request));
  return begun ? Answer{} : Answer::refuse(begun.error());
}

Answer ControlPeer::answer_pulled(wire::ByteView body) {
  const auto& pulling = greeter_.client()->pulling;
  const bool mine = pulling && pulling->coming == greeter_.coming();
  if (!body.empty() || !mine) return Answer::refuse(Errc::invalid, "there was no pull");
  return Answer{Errc::ok, wire::encode(wire::PulledReply{pulling->state.load()}), {}};
}

Answer ControlPeer::answer_map(Client& client, wire::ByteView body) {
  const auto request = wire::decode<wire::Map>(body);
  if (!request) return Answer::refuse(Errc::invalid, "malformed map");
  if (direct()) {
    const auto keys = node_.ledger.slab_keys(client, request->slabs);
    return keys ? Answer{Errc::ok, wire::encode(*keys), {}} : Answer::refuse(keys.error());
  }
  auto fds = node_.ledger.slab_descriptors(client, request->slabs);
  return fds ? Answer{Errc::ok, {}, *std::move(fds)} : Answer::refuse(fds.error());
}

Expected<void> ControlPeer::open_direct() {
  Client& client = *greeter_.client();
  const std::unique_lock access(client.access);
  if (client.fenced.load() || greeter_.superseded()) return Error{Errc::fenced, "the session has ended"};
  std::erase_if(client.direct, [](const auto& connection) { return connection.expired(); });
  client.direct.push_back(stream_);
  return open_lane(*stream_, client);
}

Answer ControlPeer::answer_grant(wire::ByteView body) {
  const auto request = wire::decode<wire::Grant>(body);
  if (!request) return Answer::refuse(Errc::invalid, "malformed grant");
  auto extents = node_.ledger.grant(*greeter_.client(), request->frames, request->min_order);
  if (!extents) return Answer::refuse(extents.error());
  return Answer{
      Errc::ok, wire::encode(wire::GrantReply{*std::move(extents), node_.ledger.load_for(*greeter_.client())}), {}};
}

Answer ControlPeer::answer_lend(wire::ByteView body) {
  const auto request = wire::decode<wire::Lend>(body);
  if (!request) return Answer::refuse(Errc::invalid, "malformed lend");
  node_.lend(request->frames);
  return {};
}

std::optional<Clock::time_point> ControlPeer::greeting_since(bool local) const noexcept {
  if (!greeting() || local != (greeter_.medium() == Medium::shm)) return std::nullopt;
  return message_deadline_ - patience_.handshake;
}

bool ControlPeer::overdue(Clock::time_point now) const noexcept {
  const bool mid_message = in_have_ > 0 || !out_.empty() || closing_;
  if ((greeting() || mid_message) && now > message_deadline_) return true;
  if (!greeter_.done() || !greeter_.client()) return false;
  return greeter_.superseded() || (greeter_.client()->fenced.load() && out_.empty());
}

std::unique_ptr<Peer> ControlPeer::become() {
  if (hung_up_) {
    return std::make_unique<LocalEnd>(std::move(hung_up_), node_.ledger, greeter_.client(), greeter_.coming());
  }
  if (direct()) return std::make_unique<DirectPeer>(std::move(stream_), greeter_.client(), greeter_.coming());
  return std::make_unique<LanePeer>(std::move(stream_), node_, greeter_.client(), greeter_.coming(), patience_.message,
                                    greeter_.ticket());
}

}  // namespace comex

#include "support/raw_client.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <stdexcept>

#include "fabric/channel.h"
#include "fabric/dial.h"
#include "fabric/socket.h"
#include "wire/auth.h"

namespace comex::test {

std::string Message::text() const {
  return {reinterpret_cast<const char*>(body.data()), body.size()};
}

wire::Bytes request(wire::Type type, std::uint32_t tag, wire::ByteView body, wire::ByteView payload) {
  wire::Header header;
  header.body = static_cast<std::uint32_t>(body.size());
  header.type = static_cast<std::uint16_t>(type);
  header.tag = tag;
  header.payload = static_cast<std::uint32_t>(payload.size());
  wire::Writer w;
  w.put(wire::ByteView(std::as_bytes(std::span(&header, 1)))).put(body).put(payload);
  return w.take();
}

wire::Bytes segments(std::span<const Extent> extents) {
  wire::Writer w;
  for (const auto& extent : extents) w.put(extent.first.value).put(extent.count);
  return w.take();
}

wire::Bytes segments(const Extent& extent) {
  return segments(std::span(&extent, 1));
}

RawPeer RawPeer::dial(const Url& url) {
  const Deadline deadline(kPatience);
  auto fd = url.scheme == Url::Scheme::unix_socket ? connect_unix(url.path) : connect_tcp(url.host, url.port, deadline);
  if (!fd) {
    ADD_FAILURE() << "cannot dial: " << fd.error().message;
    throw std::runtime_error(fd.error().message);
  }
  return RawPeer(std::make_unique<SocketStream>(*std::move(fd)));
}

bool RawPeer::send(wire::ByteView bytes, Millis cap) {
  const Deadline deadline(cap);
  while (!bytes.empty()) {
    const iovec iov{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const auto result = stream_->write({&iov, 1});
    if (result.error != Errc::ok) return false;
    bytes = bytes.subspan(result.bytes);
    if (result.would_block() && !wait_ready(stream_->fd(), POLLOUT, deadline)) return false;
  }
  return true;
}

bool RawPeer::receive(std::span<std::byte> into, const Deadline& deadline) {
  auto* const socket = dynamic_cast<SocketStream*>(stream_.get());
  while (!into.empty()) {
    const iovec iov{into.data(), into.size()};
    const auto result = socket != nullptr ? socket->read_with({&iov, 1}, fds) : stream_->read({&iov, 1});
    if (result.error != Errc::ok) return false;
    into = into.subspan(result.bytes);
    if (result.would_block() && !wait_ready(stream_->fd(), POLLIN, deadline)) return false;
  }
  return true;
}

std::optional<Message> RawPeer::receive(Millis cap) {
  const Deadline deadline(cap);
  std::array<std::byte, wire::Header::kBytes> raw;
  if (!receive(raw, deadline)) return std::nullopt;
  const auto header = wire::decode_header(raw);
  if (!header) {
    ADD_FAILURE() << "the node sent what is no header";
    return std::nullopt;
  }
  Message message{*header, wire::Bytes(header->body), wire::Bytes(header->payload)};
  if (!receive(message.body, deadline) || !receive(message.payload, deadline)) return std::nullopt;
  return message;
}

std::optional<Message> RawPeer::call(wire::Type type, wire::ByteView body, wire::ByteView payload) {
  if (!send(request(type, tag_++, body, payload))) return std::nullopt;
  return receive();
}

bool RawPeer::closed(Millis cap) {
  const Deadline deadline(cap);
  for (;;) {
    std::array<std::byte, 4096> ignored;
    const iovec iov{ignored.data(), ignored.size()};
    const auto result = stream_->read({&iov, 1});
    if (result.error != Errc::ok) return true;
    if (result.would_block() && !wait_ready(stream_->fd(), POLLIN, deadline)) return false;
  }
}

bool RawPeer::cut_off(Millis cap) {
  // POLLHUP and POLLERR are always told.
  return wait_ready(stream_->fd(), POLLRDHUP, Deadline(cap));
}

std::size_t RawPeer::drain() {
  std::size_t total = 0;
  for (;;) {
    std::array<std::byte, 65'536> ignored;
    const iovec iov{ignored.data(), ignored.size()};
    const auto result = stream_->read({&iov, 1});
    if (result.error != Errc::ok || result.would_block()) return total;
    total += result.bytes;
  }
}

wire::Hello hello(wire::Purpose purpose, ClientId client) {
  wire::Hello hello;
  hello.purpose = purpose;
  hello.client = client;
  hello.nid = NodeId{1};
  hello.pid = 1;
  hello.name = "raw";
  hello.nonce = wire::make_nonce();
  return hello;
}

std::optional<Message> shake(RawPeer& peer, const wire::Hello& hello, wire::ByteView key) {
  wire::Transcript said;
  said.hello = wire::encode(hello);
  auto greeted = peer.call(wire::Type::hello, said.hello);
  if (!greeted || greeted->status() != Errc::ok) return greeted;
  said.hello_reply = greeted->body;
  return peer.call(wire::Type::proof, wire::encode(wire::Proof{wire::client_proof(key, said)}));
}

RawSession::RawSession(const TestNode& the_node, Over the_over, const LinkOptions& the_options)
    : node(the_node), over(the_over), options(the_options) {
  auto opened = open_channel(node.url(over), options, wire::Purpose::begin, nullptr);
  if (!opened) throw std::runtime_error(opened.error().message);
  session = opened->session;
  control = std::make_unique<RawPeer>(opened->channel->release());
  control->fds = std::move(opened->fds);
}

RawPeer RawSession::join(wire::Purpose purpose) const {
  auto opened = open_channel(node.url(over), options, purpose, &session);
  if (!opened) {
    ADD_FAILURE() << "cannot join: " << opened.error().message;
    throw std::runtime_error(opened.error().message);
  }
  return RawPeer(opened->channel->release());
}

std::vector<Extent> RawSession::grant(std::uint32_t frames, unsigned min_order) {
  const auto reply =
      control->call(wire::Type::grant, wire::encode(wire::Grant{frames, static_cast<std::uint8_t>(min_order)}));
  if (!reply || reply->status() != Errc::ok) return {};
  return wire::decode<wire::GrantReply>(reply->body).value().extents;
}

Errc RawSession::give_back(std::span<const Extent> extents) {
  const auto reply = control->call(wire::Type::give_back, wire::encode_extents(extents));
  return reply ? reply->status() : Errc::disconnected;
}

}  // namespace comex::test

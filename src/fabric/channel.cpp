#include "fabric/channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/wait_ready.h"

namespace comex {
namespace {

using wire::Header;
using wire::Type;

// On the Unix socket its permissions say who may come in; the secret is for networks.
wire::ByteView secret_for(const Url& url, const LinkOptions& options) {
  if (url.scheme == Url::Scheme::unix_socket) return {};
  return std::as_bytes(std::span(options.secret));
}

Error not_a_node(const Url& url) {
  return Error{Errc::version, fmt::format("{} does not speak comex's protocol", url.text())};
}

}  // namespace

Expected<Reply> Channel::call(Type type, wire::ByteView body, const Deadline& deadline) {
  const std::lock_guard lock(mutex_);
  if (broken_) return gone(Errc::disconnected);
  Header request;
  request.body = static_cast<std::uint32_t>(body.size());
  request.type = static_cast<std::uint16_t>(type);
  request.tag = next_tag_++;
  if (auto sent = send(request, body, deadline); !sent) return std::move(sent).error();

  Reply reply;
  std::array<std::byte, Header::kBytes> raw;
  if (auto got = receive(raw, reply.fds, deadline); !got) return std::move(got).error();
  const auto header = wire::decode_header(raw);
  if (!header || header->type != (request.type | wire::kReplyBit) || header->tag != request.tag ||
      header->payload != 0) {
    broken_ = true;
    return Error{Errc::version, fmt::format("{} does not speak comex's protocol", peer_)};
  }
  reply.body.resize(header->body);
  if (auto got = receive(reply.body, reply.fds, deadline); !got) return std::move(got).error();
  if (header->status == 0) return reply;
  const std::string said(reinterpret_cast<const char*>(reply.body.data()), reply.body.size());
  return Error{static_cast<Errc>(header->status), fmt::format("{}: {}", peer_, said)};
}

Expected<void> Channel::send(const Header& header, wire::ByteView body, const Deadline& deadline) {
  std::array<iovec, 2> iov{iovec{const_cast<Header*>(&header), Header::kBytes},
                           iovec{const_cast<std::byte*>(body.data()), body.size()}};
  std::size_t at = 0;
  while (at < iov.size() && !(at == 1 && body.empty())) {
    const auto result = stream_->write(std::span(iov).subspan(at));
    if (result.error != Errc::ok) return gone(result.error);
    at = advance(iov, at, result.bytes);
    if (!result.would_block()) continue;
    if (!wait_ready(stream_->fd(), stream_->blocked_on(POLLOUT), deadline)) return gone(Errc::timeout);
  }
  return {};
}

Expected<void> Channel::receive(std::span<std::byte> into, std::vector<Fd>& fds, const Deadline& deadline) {
  auto* const socket = dynamic_cast<SocketStream*>(stream_.get());
  while (!into.empty()) {
    const iovec iov{into.data(), into.size()};
    const auto result = socket != nullptr ? socket->read_with({&iov, 1}, fds) : stream_->read({&iov, 1});
    if (result.error != Errc::ok) return gone(result.error);
    into = into.subspan(result.bytes);
    if (result.would_block() && !wait_ready(stream_->fd(), stream_->blocked_on(POLLIN), deadline))
      return gone(Errc::timeout);
  }
  return {};
}

Error Channel::gone(Errc code) {
  broken_ = true;
  if (const std::string complaint = stream_->complaint(); !complaint.empty()) {
    return Error{Errc::denied, fmt::format("{}: {}", peer_, complaint)};
  }
  const auto* what = code == Errc::timeout ? "did not answer in time" : "closed the connection";
  return Error{code, fmt::format("{} {}", peer_, what)};
}

Expected<Opened> shake_hands(std::unique_ptr<Stream> stream, const Url& url, const LinkOptions& options,
                             wire::Purpose purpose, const Session* joined, const Deadline& deadline) {
  Opened opened;
  opened.channel = std::make_unique<Channel>(std::move(stream), url.text());

  wire::Hello hello;
  hello.purpose = purpose;
  hello.nid = options.nid;
  hello.pid = static_cast<std::uint32_t>(getpid());
  hello.name = options.name;
  hello.nonce = wire::make_nonce();
  if (joined != nullptr) hello.client = joined->client;
  wire::Transcript said;
  said.hello = wire::encode(hello);
  auto greeted = opened.channel->call(Type::hello, said.hello, deadline);
  if (!greeted) return std::move(greeted).error();
  said.hello_reply = std::move(greeted->body);
  const auto hello_reply = wire::decode<wire::HelloReply>(said.hello_reply);
  if (!hello_reply || hello_reply->version < hello.version_min || hello_reply->version > hello.version_max) {
    return not_a_node(url);
  }
  if (joined != nullptr && hello_reply->boot_id != joined->boot_id) {
    return Error{Errc::fenced, fmt::format("{} was restarted: what it held is gone", url.text())};
  }

  const auto key = joined != nullptr ? wire::ByteView(joined->key) : secret_for(url, options);
  auto proved = opened.channel->call(Type::proof, wire::encode(wire::Proof{wire::client_proof(key, said)}), deadline);
  if (!proved) return std::move(proved).error();
  const auto reply = wire::decode<wire::ProofReply>(proved->body);
  if (!reply) return not_a_node(url);
  if (!wire::same(reply->mac, wire::node_proof(key, said, *reply))) {
    return Error{Errc::denied,
                 fmt::format("{} does not know the secret: check --secret-file on both sides", url.text())};
  }
  opened.fds = std::move(proved->fds);
  opened.session.client = reply->client;
  opened.session.boot_id = hello_reply->boot_id;
  opened.session.key = joined != nullptr ? joined->key : wire::session_key(key, said, reply->client);
  opened.node = NodeInfo{reply->nid,           reply->frames, reply->slab_order, Millis(reply->lease_ms),
                         hello_reply->version, std::nullopt};
  return opened;
}

}  // namespace comex

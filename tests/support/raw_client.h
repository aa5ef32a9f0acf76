// A client that speaks bytes: says what no honest client would, stops half-way, keeps what it should forget.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fabric/link.h"
#include "fabric/stream.h"
#include "support/node.h"
#include "support/wait.h"
#include "wire/message.h"

namespace comex::test {

struct Message {
  wire::Header header;
  wire::Bytes body;
  wire::Bytes payload;

  [[nodiscard]] Errc status() const { return static_cast<Errc>(header.status); }
  [[nodiscard]] std::string text() const;  // of a refusal
};

// The bytes of a request.
wire::Bytes request(wire::Type type, std::uint32_t tag, wire::ByteView body = {}, wire::ByteView payload = {});
// The body of a read or a write.
wire::Bytes segments(std::span<const Extent> extents);
wire::Bytes segments(const Extent& extent);

class RawPeer {
 public:
  // Connects and says nothing. Plain bytes, whatever the URL says.
  static RawPeer dial(const Url& url);
  explicit RawPeer(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  // False if the peer closed the connection, or did not take all of it in time.
  bool send(wire::ByteView bytes, Millis cap = kPatience);
  bool send(std::string_view text) { return send(std::as_bytes(std::span(text))); }
  // The next message from the node; nothing if the connection ended, or nothing came in time. Descriptors that come
  // along are added to fds.
  std::optional<Message> receive(Millis cap = kPatience);
  std::optional<Message> call(wire::Type type, wire::ByteView body = {}, wire::ByteView payload = {});
  // True when the node has closed the connection; what it still sent is thrown away.
  bool closed(Millis cap = kPatience);
  // The same without reading anything, so that a node that waits for us to read goes on waiting.
  bool cut_off(Millis cap = kPatience);
  // Reads and throws away; the bytes that came. Does not wait.
  std::size_t drain();

  [[nodiscard]] Stream& stream() { return *stream_; }

  std::vector<Fd> fds;

 private:
  bool receive(std::span<std::byte> into, const Deadline& deadline);

  std::unique_ptr<Stream> stream_;
  std::uint32_t tag_ = 1;
};

// A hello as an honest client would send it.
wire::Hello hello(wire::Purpose purpose, ClientId client = {});

// The handshake, with any key: what the node answered to the proof, or to the hello if it refused that.
// Nothing if it closed the connection instead.
std::optional<Message> shake(RawPeer& peer, const wire::Hello& hello, wire::ByteView key);

// A session that was begun honestly, and whose connections are in our hands.
struct RawSession {
  RawSession(const TestNode& the_node, Over the_over) : RawSession(the_node, the_over, the_node.options(the_over)) {}
  RawSession(const TestNode& the_node, Over the_over, const LinkOptions& the_options);

  // One more connection of the session: purpose lane (tcp, tls) or resume.
  [[nodiscard]] RawPeer join(wire::Purpose purpose) const;
  // The frames, or nothing if the node refused.
  std::vector<Extent> grant(std::uint32_t frames, unsigned min_order = 0);
  Errc give_back(std::span<const Extent> extents);

  const TestNode& node;
  const Over over;
  const LinkOptions options;
  Session session;
  std::unique_ptr<RawPeer> control;
};

}  // namespace comex::test

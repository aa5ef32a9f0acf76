// The client's end of a control connection: one request, one reply, with a deadline. Also the handshake by which any
// connection, control or lane, is opened.
//
// Thread safety: call() may be used by any thread; calls queue. Not for the fault path.
// After an error other than one the node itself answered with, the channel is broken for good: a late reply to a call
// that was given up must never be taken for the reply to the next.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fabric/connect.h"
#include "fabric/stream.h"
#include "wire/auth.h"
#include "wire/message.h"

namespace comex {

class RdmaDomain;

struct Reply {
  wire::Bytes body;
  std::vector<Fd> fds;  // Unix sockets only
};

class Channel {
 public:
  Channel(std::unique_ptr<Stream> stream, std::string peer) : stream_(std::move(stream)), peer_(std::move(peer)) {}

  // The node's refusal (a reply with a status) comes back as an Error with the node's own words.
  Expected<Reply> call(wire::Type type, wire::ByteView body, const Deadline& deadline);
  // Makes pending and later calls fail at once. Any thread.
  void shut() noexcept { stream_->shut(); }

  [[nodiscard]] Stream& stream() { return *stream_; }
  // REQUIRES: no call is under way, now or later.
  std::unique_ptr<Stream> release() { return std::move(stream_); }

 private:
  Expected<void> send(const wire::Header& header, wire::ByteView body, const Deadline& deadline);
  Expected<void> receive(std::span<std::byte> into, std::vector<Fd>& fds, const Deadline& deadline);
  Error gone(Errc code);

  std::mutex mutex_;  // guards all below
  std::unique_ptr<Stream> stream_;
  std::string peer_;  // its URL, for messages
  std::uint32_t next_tag_ = 1;
  bool broken_ = false;
};

// A connection that has been opened and proved.
struct Opened {
  std::unique_ptr<Channel> channel;
  Session session;
  NodeInfo node;
  std::vector<Fd> fds;  // shm: the fence page
};

// Shakes hands for `purpose` on a stream that has just been connected. `joined` as below.
Expected<Opened> shake_hands(std::unique_ptr<Stream> stream, const Url& url, const LinkOptions& options,
                             wire::Purpose purpose, const Session* joined, const Deadline& deadline);
// Connects to `url` and shakes hands for `purpose`. `joined` is the session to join (resume, lane), else null.
// `domain`, of an rdma:// lane: where its memory is registered.
Expected<Opened> open_channel(const Url& url, const LinkOptions& options, wire::Purpose purpose, const Session* joined,
                              std::shared_ptr<RdmaDomain> domain = nullptr);

}  // namespace comex

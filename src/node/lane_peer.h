// A data connection: reads and writes of pages, straight between the socket and the arena.
//
//   in_ (8 KiB)  <-- socket   requests are parsed here; page bytes that came along are copied on
//   arena        <-- socket   the rest of a write's pages
//   arena, out_  --> socket   replies: 16-byte headers gathered in out_, then the pages of one read
//
// Requests are served in order. Nothing new is read while a reply cannot be sent: that is the back-pressure.
// Every byte into or out of the arena moves under Client::access, after a look that the frames are held.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "fabric/stream.h"
#include "node/greeter.h"
#include "node/peer.h"

namespace comex {

class LanePeer final : public Peer {
 public:
  // `coming`: which coming of the client this lane belongs to. `ticket`: it is not the client's, and all that may be
  // done on it is to read these frames; null: it is.
  LanePeer(std::shared_ptr<Stream> stream, NodeContext& node, std::shared_ptr<Client> client, std::uint32_t coming,
           Millis stall, std::shared_ptr<const Ticket> ticket = nullptr);
  ~LanePeer() override;

  Want step() noexcept override;
  [[nodiscard]] int fd() const noexcept override { return stream_->fd(); }
  [[nodiscard]] bool overdue(Clock::time_point now) const noexcept override;

 private:
  static constexpr std::size_t kInBytes = 8192;
  static constexpr std::size_t kOutBytes = 64 * wire::Header::kBytes;
  static constexpr int kRequestsPerStep = 64;  // then the loop's other peers have their turn

  enum class Outcome { done, blocked, broken };
  // The pages of the request being served: which, and how many of their bytes have moved.
  struct Pages {
    std::array<Extent, wire::kMaxSegments> extents;
    std::size_t count = 0;
    std::size_t bytes = 0;  // of all
    std::size_t moved = 0;
  };

  Outcome next_request() noexcept;
  Outcome begin_request(const wire::Header& header, wire::ByteView body) noexcept;
  Outcome receive_pages() noexcept;
  Outcome fill_in() noexcept;
  Outcome flush() noexcept;
  [[nodiscard]] bool superseded() const noexcept { return client_->coming.load() != coming_; }
  Errc permitted() const noexcept;
  void reply(Errc status, std::uint32_t payload) noexcept;
  std::size_t page_buffers(iovec* out) const noexcept;
  void copy_from_in() noexcept;

  std::shared_ptr<Stream> stream_;
  NodeContext& node_;
  std::shared_ptr<Client> client_;
  const std::uint32_t coming_;
  Millis stall_;
  const std::shared_ptr<const Ticket> ticket_;
  Clock::time_point busy_since_ = Clock::now();  // when the message in hand began

  wire::Header request_;     // being served
  bool receiving_ = false;   // the pages of a write are coming in
  bool sending_ = false;     // the pages of a read are going out
  Errc verdict_ = Errc::ok;  // of the write being received: pages of a refused one are read and thrown away
  Pages pages_;

  std::array<std::byte, kInBytes> in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
  std::array<std::byte, kOutBytes> out_;
  std::size_t out_begin_ = 0;
  std::size_t out_end_ = 0;
};

}  // namespace comex

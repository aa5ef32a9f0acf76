// A byte stream over an RDMA connection, for what is small: the handshake, and control calls. Bytes are cut into
// messages of up to 4 KiB, each into a buffer that the other side has posted. There are more buffers than the longest
// call takes, and each side speaks only when it has heard the other out; should one not keep to that, the device makes
// the sender wait (receiver not ready).
//
// Thread safety: one thread at a time, but shut().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "fabric/rdma_endpoint.h"
#include "fabric/stream.h"

namespace comex {

class RdmaStream final : public Stream {
 public:
  static constexpr std::size_t kMessage = 4096;
  // For a connection that carries control calls, and for one that becomes a lane.
  static constexpr std::uint32_t kControlBuffers = 20;
  static constexpr std::uint32_t kLaneBuffers = 4;
  // What a work request is, in the upper half of its id; the lower is the number of a buffer, or the lane's.
  static constexpr std::uint64_t kReceive = 0;
  static constexpr std::uint64_t kSend = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kPages = std::uint64_t{2} << 32;

  // REQUIRES: the endpoint has room for `buffers` receives and as many sends, and is not yet connected.
  static Expected<std::unique_ptr<RdmaStream>> make(std::shared_ptr<RdmaEndpoint> endpoint, std::uint32_t buffers);
  ~RdmaStream() override;

  IoResult read(std::span<const iovec> into) noexcept override;
  IoResult write(std::span<const iovec> from) noexcept override;
  [[nodiscard]] int fd() const noexcept override { return endpoint_->fd(); }
  void shut() noexcept override { endpoint_->drop(); }
  [[nodiscard]] short blocked_on(short) const noexcept override;
  [[nodiscard]] bool delivered() noexcept override;

  [[nodiscard]] RdmaEndpoint& endpoint() { return *endpoint_; }

 private:
  struct Message {
    std::uint32_t buffer;
    std::uint32_t bytes;
    std::uint32_t taken = 0;
  };

  RdmaStream(std::shared_ptr<RdmaEndpoint> endpoint, RdmaPages pages, std::uint32_t buffers);
  [[nodiscard]] std::byte* buffer(std::uint32_t index) const { return pages_.data() + index * kMessage; }
  bool post_receive(std::uint32_t index) noexcept;
  bool post_send(std::uint32_t index, std::uint32_t bytes) noexcept;
  void take_completions() noexcept;
  // False: nothing has come, and fd() tells when something does.
  bool something_came() noexcept;

  const std::shared_ptr<RdmaEndpoint> endpoint_;
  const RdmaPages pages_;  // buffers to receive into, then those to send from
  const std::uint32_t buffers_;
  std::deque<Message> received_;
  std::vector<std::uint32_t> free_;  // to send from
  bool over_ = false;
};

}  // namespace comex

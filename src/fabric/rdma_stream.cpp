#include "fabric/rdma_stream.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace comex {
namespace {

// As many as fit of the bytes in `from`, but its first `skip`.
std::size_t gather(std::span<const iovec> from, std::size_t skip, std::span<std::byte> into) noexcept {
  std::size_t filled = 0;
  for (const iovec& part : from) {
    const std::size_t begin = std::min(skip, part.iov_len);
    skip -= begin;
    const std::size_t share = std::min(part.iov_len - begin, into.size() - filled);
    if (share == 0) continue;  // an empty body lies nowhere, which memcpy may not be told
    std::memcpy(into.data() + filled, static_cast<const std::byte*>(part.iov_base) + begin, share);
    filled += share;
  }
  return filled;
}

}  // namespace

Expected<std::unique_ptr<RdmaStream>> RdmaStream::make(std::shared_ptr<RdmaEndpoint> endpoint, std::uint32_t buffers) {
  auto pages = RdmaPages::make(endpoint->domain(), std::size_t{2} * buffers * kMessage);
  if (!pages) return std::move(pages).error();
  std::unique_ptr<RdmaStream> stream(new RdmaStream(std::move(endpoint), *std::move(pages), buffers));
  for (std::uint32_t i = 0; i < buffers; ++i) {
    if (!stream->post_receive(i)) return rdma_error("cannot post a buffer");
  }
  return stream;
}

RdmaStream::RdmaStream(std::shared_ptr<RdmaEndpoint> endpoint, RdmaPages pages, std::uint32_t buffers)
    : endpoint_(std::move(endpoint)), pages_(std::move(pages)), buffers_(buffers) {
  for (std::uint32_t i = 0; i < buffers; ++i) free_.push_back(buffers + i);
}

// Others may hold the endpoint for a moment longer; the buffers go now.
RdmaStream::~RdmaStream() {
  endpoint_->drop();
}

bool RdmaStream::post_receive(std::uint32_t index) noexcept {
  ibv_sge place{reinterpret_cast<std::uintptr_t>(buffer(index)), kMessage, pages_.key()};
  ibv_recv_wr work{};
  work.wr_id = kReceive | index;
  work.sg_list = &place;
  work.num_sge = 1;
  return endpoint_->post(work);
}

bool RdmaStream::post_send(std::uint32_t index, std::uint32_t bytes) noexcept {
  ibv_sge place{reinterpret_cast<std::uintptr_t>(buffer(index)), bytes, pages_.key()};
  ibv_send_wr work{};
  work.wr_id = kSend | index;
  work.sg_list = &place;
  work.num_sge = 1;
  work.opcode = IBV_WR_SEND;
  work.send_flags = IBV_SEND_SIGNALED | (bytes <= endpoint_->most_inline() ? unsigned{IBV_SEND_INLINE} : 0U);
  return endpoint_->post(work);
}

void RdmaStream::take_completions() noexcept {
  std::array<ibv_wc, 16> done;
  for (;;) {
    const int count = endpoint_->poll(done);
    over_ |= count < 0;
    if (count <= 0) return;
    for (const ibv_wc& one : std::span(done).first(static_cast<std::size_t>(count))) {
      const auto index = static_cast<std::uint32_t>(one.wr_id);
      if (one.status != IBV_WC_SUCCESS) {
        over_ = true;
      } else if ((one.wr_id & kSend) != 0) {
        free_.push_back(index);
      } else {
        received_.push_back(Message{index, one.byte_len});
      }
    }
  }
}

bool RdmaStream::something_came() noexcept {
  const auto before = received_.size() + free_.size();
  take_completions();
  if (over_ || received_.size() + free_.size() != before) return true;
  endpoint_->arm();
  take_completions();
  over_ |= !endpoint_->hear();
  return over_ || received_.size() + free_.size() != before;
}

IoResult RdmaStream::read(std::span<const iovec> into) noexcept {
  while (received_.empty()) {
    if (over_) return {0, Errc::disconnected};
    if (!something_came()) return {};
  }
  std::size_t moved = 0;
  for (const iovec& part : into) {
    std::size_t filled = 0;
    while (filled < part.iov_len && !received_.empty()) {
      Message& first = received_.front();
      const std::size_t share = std::min<std::size_t>(part.iov_len - filled, first.bytes - first.taken);
      std::memcpy(static_cast<std::byte*>(part.iov_base) + filled, buffer(first.buffer) + first.taken, share);
      filled += share;
      first.taken += static_cast<std::uint32_t>(share);
      if (first.taken < first.bytes) continue;
      over_ |= !post_receive(first.buffer);
      received_.pop_front();
    }
    moved += filled;
  }
  return {moved, Errc::ok};
}

IoResult RdmaStream::write(std::span<const iovec> from) noexcept {
  take_completions();
  std::size_t moved = 0;
  for (;;) {
    if (over_) return {0, Errc::disconnected};
    if (free_.empty()) {
      if (moved > 0 || !something_came()) break;
      continue;
    }
    const std::size_t filled = gather(from, moved, {buffer(free_.back()), kMessage});
    if (filled == 0) break;
    const std::uint32_t index = free_.back();
    free_.pop_back();
    if (!post_send(index, static_cast<std::uint32_t>(filled))) return {0, Errc::disconnected};
    moved += filled;
  }
  return {moved, Errc::ok};
}

// Room comes with a completion, which makes the descriptor readable.
short RdmaStream::blocked_on(short) const noexcept {
  return POLLIN;
}

bool RdmaStream::delivered() noexcept {
  while (!over_ && free_.size() < buffers_) {
    if (!something_came()) return false;
  }
  return true;
}

}  // namespace comex

#include "fabric/tcp_lane.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/wait_ready.h"

namespace comex {
namespace {

// The local memory of a transfer but its first `skip` bytes, as buffers. Returns how many.
std::size_t local_buffers(const Transfer& transfer, std::size_t skip, iovec* out) {
  std::size_t count = 0;
  for (const auto& segment : transfer.segments) {
    const std::size_t bytes = std::size_t{segment.count} << kPageShift;
    if (skip < bytes) out[count++] = iovec{segment.local + skip, bytes - skip};
    skip -= std::min(skip, bytes);
  }
  return count;
}

}  // namespace

TcpLane::TcpLane(std::unique_ptr<Stream> stream, std::atomic<Errc>& broken, Nanos max_spin)
    : Lane(broken, max_spin), owned_(std::move(stream)), stream_(*owned_) {}

TcpLane::TcpLane(Stream& stream, std::atomic<Errc>& broken, Nanos max_spin) : Lane(broken, max_spin), stream_(stream) {}

// --- sending ---

Errc TcpLane::send_some() noexcept {
  for (;;) {
    if (iov_begin_ == iov_end_) fill_batch();
    if (iov_begin_ == iov_end_) {
      unsent_.store(false, std::memory_order_relaxed);
      return Errc::ok;
    }
    const auto result = stream_.write(std::span(iov_).subspan(iov_begin_, iov_end_ - iov_begin_));
    if (result.error != Errc::ok) return result.error;
    if (result.would_block()) {
      unsent_.store(true, std::memory_order_relaxed);
      return Errc::ok;
    }
    iov_begin_ = advance(std::span(iov_).first(iov_end_), iov_begin_, result.bytes);
    sent_bytes_.store(sent_bytes_.load(std::memory_order_relaxed) + result.bytes, std::memory_order_release);
  }
}

void TcpLane::fill_batch() noexcept {
  iov_begin_ = iov_end_ = 0;
  for (std::size_t i = 0; i < kBatch && !queue_.empty(); ++i) {
    Transfer* const transfer = queue_.pop();
    add_to_batch(*transfer, requests_[i]);
    // In flight before a byte of it is sent: the reply may be here before write() returns.
    const std::lock_guard lock(flight_mutex_);
    flight_.push(*transfer);
  }
}

void TcpLane::add_to_batch(Transfer& transfer, std::span<std::byte, kRequestBytes> request) noexcept {
  const bool writes = transfer.direction == Direction::write;
  const std::size_t body = transfer.segments.size() * sizeof(Extent);
  transfer.tag = next_tag_++;
  wire::Header header;
  header.body = static_cast<std::uint32_t>(body);
  header.type = static_cast<std::uint16_t>(writes ? wire::Type::write : wire::Type::read);
  header.tag = transfer.tag;
  header.payload = writes ? static_cast<std::uint32_t>(transfer.pages() << kPageShift) : 0;
  std::memcpy(request.data(), &header, sizeof header);
  static_assert(sizeof(Extent) == 8, "an extent in memory is an extent on the wire");
  std::byte* at = request.data() + sizeof header;
  for (const auto& segment : transfer.segments) {
    const Extent extent{segment.first, segment.count};
    std::memcpy(at, &extent, sizeof extent);
    at += sizeof extent;
  }
  iov_[iov_end_++] = iovec{request.data(), sizeof header + body};
  if (writes) iov_end_ += local_buffers(transfer, 0, &iov_[iov_end_]);
  batched_bytes_ += sizeof header + body + header.payload;
  transfer.last_byte = batched_bytes_;
}

// --- receiving ---

Transfer* TcpLane::oldest() noexcept {
  const std::lock_guard lock(flight_mutex_);
  return flight_.front();
}

// One call for as much as may come: the rest of the header, the pages and the header of the reply after them. If the
// node refuses a read there are no pages; then what came into their place belongs to later replies: see sort_out.
Errc TcpLane::receive_some(bool* moved) noexcept {
  *moved = false;
  const Transfer* const transfer = oldest();
  const std::size_t header_room = sizeof reply_ - reply_bytes_;
  std::size_t page_room = 0;
  std::size_t buffers = 0;
  if (header_room > 0) parts_[buffers++] = iovec{reinterpret_cast<std::byte*>(&reply_) + reply_bytes_, header_room};
  if (transfer != nullptr && transfer->direction == Direction::read) {
    page_room = (transfer->pages() << kPageShift) - page_bytes_;
    buffers += local_buffers(*transfer, page_bytes_, &parts_[buffers]);
    parts_[buffers++] = iovec{next_reply_.data(), next_reply_.size()};
  }
  const auto result = stream_.read(std::span(parts_).first(buffers));
  if (result.error != Errc::ok) return result.error;
  if (result.would_block()) return Errc::ok;
  *moved = true;
  const std::size_t of_header = std::min(result.bytes, header_room);
  const std::size_t of_pages = std::min(result.bytes - of_header, page_room);
  const std::size_t of_next = result.bytes - of_header - of_pages;
  reply_bytes_ += of_header;
  page_bytes_ += of_pages;
  const Errc error = settle();
  return error == Errc::ok ? feed(std::span(next_reply_).first(of_next)) : error;
}

// Completes the oldest transfer if all of its reply is here.
Errc TcpLane::settle() noexcept {
  if (reply_bytes_ < sizeof reply_) return Errc::ok;
  // Looked up only now: it may have been submitted and answered since the read began.
  Transfer* const transfer = oldest();
  if (const Errc wrong = check_reply(transfer); wrong != Errc::ok) return wrong;
  if (page_bytes_ < reply_.payload) return Errc::ok;
  const auto status = static_cast<Errc>(reply_.status);
  const std::size_t behind = page_bytes_ - reply_.payload;
  reply_bytes_ = page_bytes_ = 0;
  {
    const std::lock_guard lock(flight_mutex_);
    flight_.pop();
  }
  const Errc result = behind > 0 ? sort_out(*transfer, behind) : Errc::ok;
  complete(*transfer, status);
  return result;
}

// A read was refused, with a header alone: what was received as its pages, into its memory, are replies to later ones.
Errc TcpLane::sort_out(const Transfer& refused, std::size_t bytes) noexcept {
  std::array<iovec, wire::kMaxSegments> parts;
  const std::size_t count = local_buffers(refused, 0, parts.data());
  for (std::size_t i = 0; i < count && bytes > 0; ++i) {
    const std::size_t share = std::min(bytes, parts[i].iov_len);
    const auto* const from = static_cast<const std::byte*>(parts[i].iov_base);
    if (const Errc error = feed({from, share}); error != Errc::ok) return error;
    bytes -= share;
  }
  return Errc::ok;
}

// As if these bytes had just been received.
Errc TcpLane::feed(wire::ByteView bytes) noexcept {
  while (!bytes.empty()) {
    std::size_t share = std::min(bytes.size(), sizeof reply_ - reply_bytes_);
    if (share > 0) {
      std::memcpy(reinterpret_cast<std::byte*>(&reply_) + reply_bytes_, bytes.data(), share);
      reply_bytes_ += share;
    } else {
      std::array<iovec, wire::kMaxSegments> rest;
      (void)local_buffers(*oldest(), page_bytes_, rest.data());  // settle() has checked that there is a rest
      share = std::min(bytes.size(), rest[0].iov_len);
      std::memcpy(rest[0].iov_base, bytes.data(), share);
      page_bytes_ += share;
    }
    bytes = bytes.subspan(share);
    if (const Errc error = settle(); error != Errc::ok) return error;
  }
  return Errc::ok;
}

// Anything that is not exactly the reply to `expected` means that the two sides no longer agree on where messages
// begin: the link cannot go on.
Errc TcpLane::check_reply(Transfer* expected) noexcept {
  if (expected == nullptr || reply_.tag != expected->tag || reply_.body != 0) return Errc::version;
  const bool reads = expected->direction == Direction::read;
  const auto type = static_cast<std::uint16_t>(reads ? wire::Type::read : wire::Type::write);
  if (reply_.type != (type | wire::kReplyBit)) return Errc::version;
  const bool pages = reads && reply_.status == 0;  // a refusal is a header alone
  if (reply_.payload != (pages ? expected->pages() << kPageShift : 0)) return Errc::version;
  return really_sent(*expected) ? Errc::ok : Errc::version;
}

// A node that answers a write before it has all of it could make us give the caller's memory back while it is still
// being sent. The sender may only not have written down yet that it is done: its mutex tells.
bool TcpLane::really_sent(const Transfer& transfer) noexcept {
  if (sent_bytes_.load(std::memory_order_acquire) >= transfer.last_byte) return true;
  const std::lock_guard lock(send_mutex_);
  return sent_bytes_.load(std::memory_order_relaxed) >= transfer.last_byte;
}

// --- waiting ---

bool TcpLane::sleep(const Deadline& deadline, Errc*) noexcept {
  const auto events = static_cast<short>(POLLIN | (unsent_.load(std::memory_order_relaxed) ? POLLOUT : 0));
  return wait_ready(stream_.fd(), events, deadline);
}

// The leader may be polling for replies only, which will not come before this is sent.
bool TcpLane::help(Errc* error) noexcept {
  if (!unsent_.load(std::memory_order_relaxed)) return false;
  wait_ready(stream_.fd(), POLLOUT, Deadline(std::chrono::milliseconds(1)));
  *error = send_if_idle();
  return true;
}

void TcpLane::fail_all(Errc why) noexcept {
  const std::lock_guard receiving(receive_mutex_);
  const std::lock_guard sending(send_mutex_);
  iov_begin_ = iov_end_ = 0;
  unsent_.store(false, std::memory_order_relaxed);
  for (;;) {
    Transfer* transfer = nullptr;
    {
      const std::lock_guard lock(flight_mutex_);
      transfer = flight_.pop();
    }
    if (transfer == nullptr) transfer = queue_.pop();
    if (transfer == nullptr) return;
    complete(*transfer, why);
  }
}

}  // namespace comex

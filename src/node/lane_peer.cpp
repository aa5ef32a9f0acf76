#include "node/lane_peer.h"

#include <algorithm>
#include <cstring>

namespace comex {

using wire::Header;
using wire::Type;

LanePeer::LanePeer(std::shared_ptr<Stream> stream, NodeContext& node, std::shared_ptr<Client> client,
                   std::uint32_t coming, Millis stall, std::shared_ptr<const Ticket> ticket)
    : stream_(std::move(stream)),
      node_(node),
      client_(std::move(client)),
      coming_(coming),
      stall_(stall),
      ticket_(std::move(ticket)) {
  client_->lanes.fetch_add(1);
}

LanePeer::~LanePeer() {
  client_->lanes.fetch_sub(1);
}

Peer::Want LanePeer::step() noexcept {
  for (int i = 0; i < kRequestsPerStep; ++i) {
    Outcome outcome = Outcome::done;
    if (sending_ || out_end_ == kOutBytes) {
      outcome = flush();
      if (outcome == Outcome::blocked) return Want::write;
    } else {
      outcome = receiving_ ? receive_pages() : next_request();
      if (outcome == Outcome::blocked) {
        // Nothing more to serve now: let the replies go.
        const Outcome flushed = flush();
        if (flushed == Outcome::blocked) return Want::write;
        return flushed == Outcome::broken ? Want::close : Want::read;
      }
    }
    if (outcome == Outcome::broken) return Want::close;
  }
  // More to do, but others have their turn. Requests may already be in in_, so it is not the socket's turn to say when
  // to go on: asking to write, which is nearly always possible, brings the loop back at once.
  return Want::write;
}

// --- requests ---

LanePeer::Outcome LanePeer::next_request() noexcept {
  for (;;) {
    const std::size_t have = in_end_ - in_begin_;
    if (have >= Header::kBytes) {
      const auto header = wire::decode_header(std::span(in_).subspan(in_begin_).first<Header::kBytes>());
      if (!header || header->body > wire::kMaxSegments * sizeof(Extent)) return Outcome::broken;
      if (have >= Header::kBytes + header->body) {
        const auto body = wire::ByteView(in_).subspan(in_begin_ + Header::kBytes, header->body);
        in_begin_ += Header::kBytes + header->body;
        return begin_request(*header, body);
      }
    }
    if (const Outcome filled = fill_in(); filled != Outcome::done) return filled;
  }
}

LanePeer::Outcome LanePeer::begin_request(const Header& header, wire::ByteView body) noexcept {
  const auto type = static_cast<Type>(header.type);
  const auto count = wire::decode_segments(body, pages_.extents);
  if ((type != Type::read && type != Type::write) || !count) return Outcome::broken;
  pages_.count = *count;
  pages_.bytes = pages_.moved = 0;
  for (const auto& extent : std::span(pages_.extents).first(*count)) pages_.bytes += extent.bytes();
  if (header.payload != (type == Type::write ? pages_.bytes : 0)) return Outcome::broken;

  if (ticket_ && type != Type::read) return Outcome::broken;

  request_ = header;
  busy_since_ = Clock::now();
  if (!ticket_) client_->touch(busy_since_);  // who reads by a ticket says nothing of whether the client lives
  if (type == Type::write) {
    receiving_ = true;
    verdict_ = Errc::ok;
    return Outcome::done;
  }
  Errc status = Errc::ok;
  {
    const std::shared_lock access(client_->access);
    status = permitted();
  }
  reply(status, status == Errc::ok ? static_cast<std::uint32_t>(pages_.bytes) : 0);
  sending_ = status == Errc::ok;
  return Outcome::done;
}

// REQUIRES: client_->access held, shared, until the bytes have moved.
Errc LanePeer::permitted() const noexcept {
  for (const auto& extent : std::span(pages_.extents).first(pages_.count)) {
    if (ticket_ && !ticket_->opens(extent)) return Errc::denied;
    if (client_->holdings.holds(extent)) continue;
    return client_->fenced.load() ? Errc::fenced : Errc::denied;
  }
  return Errc::ok;
}

void LanePeer::reply(Errc status, std::uint32_t payload) noexcept {
  Header header;
  header.type = request_.type | wire::kReplyBit;
  header.status = static_cast<std::uint16_t>(status);
  header.tag = request_.tag;
  header.payload = payload;
  std::memcpy(out_.data() + out_end_, &header, sizeof header);
  out_end_ += sizeof header;
}

// --- bytes ---

// The rest of the pages, as buffers in the arena. Returns how many.
std::size_t LanePeer::page_buffers(iovec* out) const noexcept {
  std::size_t skip = pages_.moved;
  std::size_t count = 0;
  for (const auto& extent : std::span(pages_.extents).first(pages_.count)) {
    const std::size_t bytes = extent.bytes();
    if (skip < bytes) out[count++] = iovec{node_.arena.frame_address(extent.first) + skip, bytes - skip};
    skip -= std::min(skip, bytes);
  }
  return count;
}

LanePeer::Outcome LanePeer::receive_pages() noexcept {
  while (pages_.moved < pages_.bytes) {
    std::array<iovec, wire::kMaxSegments + 1> iov;
    const std::shared_lock access(client_->access);
    // Looked at again for every piece: the frames may have been taken away since the last.
    if (superseded()) return Outcome::broken;
    if (verdict_ == Errc::ok) verdict_ = permitted();
    if (in_begin_ < in_end_) {
      copy_from_in();
      continue;
    }
    in_begin_ = in_end_ = 0;
    const std::size_t left = pages_.bytes - pages_.moved;
    // Pages that may not be written are read over and over into the same place, to get to the next request.
    std::size_t count = 0;
    if (verdict_ == Errc::ok) count = page_buffers(iov.data());
    iov[count++] = iovec{in_.data(), verdict_ == Errc::ok ? in_.size() : std::min(in_.size(), left)};
    const auto result = stream_->read(std::span(iov).first(count));
    if (result.error != Errc::ok) return Outcome::broken;
    if (result.would_block()) return Outcome::blocked;
    const std::size_t pages = std::min(result.bytes, left);
    pages_.moved += pages;
    in_end_ = verdict_ == Errc::ok ? result.bytes - pages : 0;
  }
  receiving_ = false;
  if (verdict_ == Errc::ok) node_.pages_written.fetch_add(pages_.bytes >> kPageShift, std::memory_order_relaxed);
  reply(verdict_, 0);
  return Outcome::done;
}

// Page bytes that came in together with their request. REQUIRES: client_->access held, shared.
void LanePeer::copy_from_in() noexcept {
  std::size_t have = std::min(in_end_ - in_begin_, pages_.bytes - pages_.moved);
  if (verdict_ == Errc::ok) {
    std::array<iovec, wire::kMaxSegments> iov;
    const std::size_t count = page_buffers(iov.data());
    std::size_t left = have;
    const std::byte* from = in_.data() + in_begin_;
    for (std::size_t i = 0; i < count && left > 0; ++i) {
      const std::size_t share = std::min(left, iov[i].iov_len);
      std::memcpy(iov[i].iov_base, from, share);
      from += share;
      left -= share;
    }
  }
  in_begin_ += have;
  pages_.moved += have;
}

LanePeer::Outcome LanePeer::fill_in() noexcept {
  if (in_begin_ > 0) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  const iovec iov{in_.data() + in_end_, in_.size() - in_end_};
  const auto result = stream_->read({&iov, 1});
  if (result.error != Errc::ok) return Outcome::broken;
  if (result.would_block()) return Outcome::blocked;
  if (in_end_ == 0) busy_since_ = Clock::now();
  in_end_ += result.bytes;
  return Outcome::done;
}

LanePeer::Outcome LanePeer::flush() noexcept {
  while (sending_ || out_begin_ < out_end_) {
    std::array<iovec, wire::kMaxSegments + 1> iov;
    std::size_t count = 0;
    const std::size_t headers = out_end_ - out_begin_;
    if (headers > 0) iov[count++] = iovec{out_.data() + out_begin_, headers};
    std::shared_lock access(client_->access, std::defer_lock);
    if (sending_) {
      access.lock();
      // The reply is half sent: if the frames are gone by now, there is no honest way to finish it.
      if (superseded() || permitted() != Errc::ok) return Outcome::broken;
      count += page_buffers(&iov[count]);
    }
    const auto result = stream_->write(std::span(iov).first(count));
    if (result.error != Errc::ok) return Outcome::broken;
    if (result.would_block()) return Outcome::blocked;
    out_begin_ += std::min(headers, result.bytes);
    if (!sending_) continue;
    pages_.moved += result.bytes - std::min(headers, result.bytes);
    if (pages_.moved < pages_.bytes) continue;
    sending_ = false;
    node_.pages_read.fetch_add(pages_.bytes >> kPageShift, std::memory_order_relaxed);
  }
  out_begin_ = out_end_ = 0;
  return Outcome::done;
}

bool LanePeer::overdue(Clock::time_point now) const noexcept {
  if (client_->fenced.load() || superseded()) return true;
  if (ticket_ && now > ticket_->until) return true;
  const bool mid_message = receiving_ || sending_ || in_begin_ < in_end_ || out_begin_ < out_end_;
  return mid_message && now - busy_since_ > stall_;
}

}  // namespace comex

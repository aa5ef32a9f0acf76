#include "fabric/rdma_lane.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/wait_ready.h"

namespace comex {
namespace {

// Why a connection has failed, as the device says it.
Errc reason(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR: return Errc::denied;  // the node's device refused: a key that is not, or no longer, ours
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR: return Errc::timeout;
    default: return Errc::disconnected;
  }
}

}  // namespace

Expected<std::unique_ptr<Lane>> RdmaLane::make(std::unique_ptr<RdmaStream> stream, const RdmaKeys& keys,
                                               RdmaLocal& local, std::atomic<Errc>& broken, Nanos max_spin) {
  auto bounce = RdmaPages::make(stream->endpoint().domain(), std::size_t{kBouncePages} << kPageShift);
  if (!bounce) return std::move(bounce).error();
  return std::unique_ptr<Lane>(new RdmaLane(std::move(stream), *std::move(bounce), keys, local, broken, max_spin));
}

RdmaLane::RdmaLane(std::unique_ptr<RdmaStream> stream, RdmaPages bounce, const RdmaKeys& keys, RdmaLocal& local,
                   std::atomic<Errc>& broken, Nanos max_spin)
    : Lane(broken, max_spin), stream_(std::move(stream)), bounce_(std::move(bounce)), keys_(keys), local_(local) {}

// --- sending ---

Errc RdmaLane::send_some() noexcept {
  std::array<ibv_send_wr, kDoorbell> works;
  std::array<Places, kDoorbell> places;
  for (;;) {
    std::uint32_t count = 0;
    while (count < kDoorbell && next_piece(works[count], places[count])) {
      if (count > 0) works[count - 1].next = &works[count];
      ++count;
    }
    unsent_.store(!queue_.empty(), std::memory_order_relaxed);
    if (count == 0) return Errc::ok;
    // Room for more comes with a completion.
    works[count - 1].send_flags |= IBV_SEND_SIGNALED;
    if (!stream_->endpoint().post(works.front())) return Errc::disconnected;
  }
}

// Where the next frames to be moved are. Frames that were the client's when they were submitted need not be now: then
// the transfer ends in an error, but not while pieces of it are under way.
std::optional<RdmaKeys::Found> RdmaLane::find_next() noexcept {
  while (Transfer* const transfer = queue_.front()) {
    const Segment& segment = transfer->segments[segment_];
    const RdmaKeys::Found found = keys_.find(segment.first + page_, segment.count - page_);
    if (found.frames > 0) return found;
    const bool begun = segment_ > 0 || page_ > 0;
    // Its pieces are the last that were posted.
    if (begun && done_.load(std::memory_order_acquire) != posted_.load(std::memory_order_relaxed)) return std::nullopt;
    segment_ = page_ = 0;
    queue_.pop();
    complete(*transfer, Errc::denied);
  }
  return std::nullopt;
}

bool RdmaLane::next_piece(ibv_send_wr& work, Places& places) noexcept {
  const std::uint32_t number = posted_.load(std::memory_order_relaxed);
  const auto next = find_next();
  if (!next || number - done_.load(std::memory_order_acquire) == kPieces) return false;
  const RdmaKeys::Found& found = *next;
  Transfer& transfer = *queue_.front();
  const Segment& segment = transfer.segments[segment_];
  const bool writes = transfer.direction == Direction::write;
  std::uint32_t pages = found.frames;
  std::byte* const local = segment.local + (std::size_t{page_} << kPageShift);
  auto piece = place_piece(transfer, local, &pages, places.front());
  if (!piece) return false;
  pass(pages, transfer);
  std::uint32_t used = 1;
  if (piece->bounced == nullptr) used += gather(transfer, found, std::span(places).subspan(1));

  piece->last = segment_ == transfer.segments.size();
  if (piece->last) {
    segment_ = 0;
    queue_.pop();
  }
  pieces_[number % kPieces] = *piece;
  work = ibv_send_wr{};
  work.wr_id = RdmaStream::kPages | number;
  work.sg_list = places.data();
  work.num_sge = static_cast<int>(used);
  work.opcode = writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
  work.send_flags = piece->last ? unsigned{IBV_SEND_SIGNALED} : 0U;
  work.wr.rdma.remote_addr = found.address;
  work.wr.rdma.rkey = found.key;
  // Before it is posted: its completion may be here before the call returns.
  posted_.store(number + 1, std::memory_order_release);
  return true;
}

// So many pages of the segment are in a piece.
void RdmaLane::pass(std::uint32_t pages, const Transfer& transfer) noexcept {
  page_ += pages;
  if (page_ < transfer.segments[segment_].count) return;
  page_ = 0;
  ++segment_;
}

// What comes next as long as its frames follow `before` in the same slab, and the device knows its memory. Returns how
// many places it has taken.
std::uint32_t RdmaLane::gather(const Transfer& transfer, RdmaKeys::Found before, std::span<ibv_sge> places) noexcept {
  const std::uint32_t most = std::min(static_cast<std::uint32_t>(places.size()), stream_->endpoint().most_places() - 1);
  std::uint32_t used = 0;
  while (used < most && page_ == 0 && segment_ < transfer.segments.size()) {
    const Segment& segment = transfer.segments[segment_];
    const RdmaKeys::Found found = keys_.find(segment.first, segment.count);
    const std::uint64_t end = before.address + (std::uint64_t{before.frames} << kPageShift);
    if (found.key != before.key || found.address != end) break;
    const std::uint32_t bytes = found.frames << kPageShift;
    const auto key = local_.find(segment.local, bytes);
    if (!key) break;
    places[used] = ibv_sge{reinterpret_cast<std::uintptr_t>(segment.local), bytes, *key};
    ++used;
    pass(found.frames, transfer);
    before = found;
  }
  return used;
}

// Where the device is to bring *pages, or to take them from: as many of them as can be had. None now: nothing.
std::optional<RdmaLane::Piece> RdmaLane::place_piece(Transfer& transfer, std::byte* local, std::uint32_t* pages,
                                                     ibv_sge& place) noexcept {
  const auto bytes = [&] { return *pages << kPageShift; };
  if (const auto key = local_.find(local, bytes())) {
    place = ibv_sge{reinterpret_cast<std::uintptr_t>(local), bytes(), *key};
    return Piece{.transfer = &transfer};
  }
  std::byte* const bounced = take_bounce(pages);
  if (bounced == nullptr) return std::nullopt;
  const bool writes = transfer.direction == Direction::write;
  if (writes) std::memcpy(bounced, local, bytes());
  place = ibv_sge{reinterpret_cast<std::uintptr_t>(bounced), bytes(), bounce_.key()};
  return Piece{.transfer = &transfer, .local = writes ? nullptr : local, .bounced = bounced, .bounce_pages = *pages};
}

// Up to *pages that lie together; null if there are none now.
std::byte* RdmaLane::take_bounce(std::uint32_t* pages) noexcept {
  const std::uint32_t free = kBouncePages - (bounce_taken_ - bounce_done_.load(std::memory_order_acquire));
  const std::uint32_t at = bounce_taken_ % kBouncePages;
  *pages = std::min({*pages, free, kBouncePages - at});
  if (*pages == 0) return nullptr;
  bounce_taken_ += *pages;
  return bounce_.data() + (std::size_t{at} << kPageShift);
}

// --- receiving ---

Errc RdmaLane::receive_some(bool* moved) noexcept {
  std::array<ibv_wc, 16> came;
  const int count = stream_->endpoint().poll(came);
  *moved = count > 0;
  if (count < 0) return Errc::disconnected;
  for (const ibv_wc& one : std::span(came).first(static_cast<std::size_t>(count))) {
    if (one.status != IBV_WC_SUCCESS) return reason(one.status);
    if ((one.wr_id & RdmaStream::kPages) != 0) settle(static_cast<std::uint32_t>(one.wr_id));
  }
  return Errc::ok;
}

void RdmaLane::settle(std::uint32_t up_to) noexcept {
  std::uint32_t number = done_.load(std::memory_order_relaxed);
  while (number != up_to + 1) {
    const Piece piece = pieces_[number % kPieces];
    if (piece.local != nullptr) {
      std::memcpy(piece.local, piece.bounced, std::size_t{piece.bounce_pages} << kPageShift);
    }
    ++number;
    bounce_done_.store(bounce_done_.load(std::memory_order_relaxed) + piece.bounce_pages, std::memory_order_release);
    done_.store(number, std::memory_order_release);
    if (piece.last) complete(*piece.transfer, Errc::ok);
  }
}

Transfer* RdmaLane::oldest() noexcept {
  const std::uint32_t number = done_.load(std::memory_order_relaxed);
  return number == posted_.load(std::memory_order_acquire) ? nullptr : pieces_[number % kPieces].transfer;
}

bool RdmaLane::sleep(const Deadline& deadline, Errc* error) noexcept {
  RdmaEndpoint& endpoint = stream_->endpoint();
  endpoint.arm();
  bool moved = false;
  *error = receive(&moved);
  if (moved || *error != Errc::ok) return true;
  const bool ready = wait_ready(endpoint.fd(), POLLIN, deadline);
  if (ready && !endpoint.hear()) *error = Errc::disconnected;
  return ready;
}

void RdmaLane::fail_all(Errc why) noexcept {
  const std::lock_guard receiving(receive_mutex_);
  const std::lock_guard sending(send_mutex_);
  // After this the device touches nobody's memory for us.
  stream_->endpoint().drop();
  unsent_.store(false, std::memory_order_relaxed);
  std::uint32_t number = done_.load(std::memory_order_relaxed);
  const std::uint32_t end = posted_.load(std::memory_order_relaxed);
  done_.store(end, std::memory_order_relaxed);
  for (; number != end; ++number) {
    const Piece& piece = pieces_[number % kPieces];
    if (piece.last) complete(*piece.transfer, why);
  }
  // One of which only a part was posted is still the first here.
  segment_ = page_ = 0;
  while (Transfer* const transfer = queue_.pop()) complete(*transfer, why);
}

}  // namespace comex

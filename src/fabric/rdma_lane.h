// An RDMA connection that moves pages: the device reads and writes the node's frames, and nobody at the node runs.
//
//   queue_  -->  pieces_ (posted: up to 16 with one doorbell, in order)  -->  done, in that order
//
// A transfer is posted in pieces: frames that lie together in one slab. Memory here that the device knows
// (rdma_local.h) is used as it is, in as many places as the device takes with one request (scatter/gather), of several
// segments if their frames lie together; what is elsewhere goes through pages of the lane's own, which are used in a
// ring. Work on one connection completes in order, so only the last piece of a transfer, and of a doorbell, asks for a
// completion.
//
// How threads wait is in lane.h. Locks, in order: receive_mutex_, send_mutex_. What both sides use are the counters.
// Not for the inside of programs: the device's library has locks of its own.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "base/mutex.h"
#include "fabric/lane.h"
#include "fabric/rdma_keys.h"
#include "fabric/rdma_local.h"
#include "fabric/rdma_stream.h"

namespace comex {

class RdmaLane final : public Lane {
 public:
  static constexpr std::uint32_t kPieces = 128;  // posted at once
  static constexpr std::uint32_t kPlaces = 8;    // of memory here, in one piece; the device may want fewer

  // `stream` is a lane that has been proved, and all of it is here: its buffers stay posted.
  static Expected<std::unique_ptr<Lane>> make(std::unique_ptr<RdmaStream> stream, const RdmaKeys& keys,
                                              RdmaLocal& local, std::atomic<Errc>& broken, Nanos max_spin);

  void fail_all(Errc why) noexcept override;
  void shut() noexcept override { stream_->endpoint().cut(); }

 private:
  static constexpr std::uint32_t kDoorbell = 16;      // pieces with one call
  static constexpr std::uint32_t kBouncePages = 256;  // the largest transfer, whole

  // What has been posted, until it is done.
  struct Piece {
    Transfer* transfer = nullptr;
    std::byte* local = nullptr;      // where pages that were read have to go yet; null: nowhere
    std::byte* bounced = nullptr;    // ... and where they are
    std::uint32_t bounce_pages = 0;  // of the lane's own
    bool last = false;               // of its transfer
  };

  RdmaLane(std::unique_ptr<RdmaStream> stream, RdmaPages bounce, const RdmaKeys& keys, RdmaLocal& local,
           std::atomic<Errc>& broken, Nanos max_spin);

  Errc send_some() noexcept override;
  Errc receive_some(bool* moved) noexcept override;
  bool sleep(const Deadline& deadline, Errc* error) noexcept override;
  bool help(Errc*) noexcept override { return false; }
  Transfer* oldest() noexcept override;

  using Places = std::array<ibv_sge, kPlaces>;

  // REQUIRES, of all: send_mutex_.
  std::optional<RdmaKeys::Found> find_next() noexcept;
  bool next_piece(ibv_send_wr& work, Places& places) noexcept;
  std::optional<Piece> place_piece(Transfer& transfer, std::byte* local, std::uint32_t* pages, ibv_sge& place) noexcept;
  std::byte* take_bounce(std::uint32_t* pages) noexcept;
  std::uint32_t gather(const Transfer& transfer, RdmaKeys::Found before, std::span<ibv_sge> places) noexcept;
  void pass(std::uint32_t pages, const Transfer& transfer) noexcept;

  // REQUIRES: receive_mutex_. Pieces up to this one are done.
  void settle(std::uint32_t up_to) noexcept;

  const std::unique_ptr<RdmaStream> stream_;
  const RdmaPages bounce_;
  const RdmaKeys& keys_;
  RdmaLocal& local_;
  std::array<Piece, kPieces> pieces_;          // a ring: those from done_ up to posted_ are the receiving side's
  std::atomic<std::uint32_t> posted_{0};       // pieces, ever; written under send_mutex_
  std::atomic<std::uint32_t> done_{0};         // pieces, ever; written under receive_mutex_
  std::atomic<std::uint32_t> bounce_done_{0};  // pages, ever; written under receive_mutex_

  std::size_t segment_ = 0;         // guarded by send_mutex_: of the first in the queue, what is to be posted next,
  std::uint32_t page_ = 0;          // and how much of it has been
  std::uint32_t bounce_taken_ = 0;  // pages, ever
};

}  // namespace comex

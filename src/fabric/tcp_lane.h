// One data connection of a link or an outpost: transfers go out in the order they were queued, replies come back in
// that order, and pages go straight between the socket and the callers' memory.
//
//   queue_  -->  batch_ (headers and buffers of up to 16 transfers, one sendmsg)  -->  flight_ (sent, reply awaited)
//
// How threads wait for replies is in lane.h.
//
// Locks, in order: receive_mutex_, send_mutex_, flight_mutex_. The last two are held for non-blocking calls and pointer
// updates only.
// Fault path: everything but the constructor that takes ownership. Needs neither OpenSSL nor fmt.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <memory>

#include "base/mutex.h"
#include "fabric/lane.h"
#include "fabric/stream.h"
#include "fabric/transfer.h"
#include "wire/message.h"

namespace comex {

class TcpLane final : public Lane {
 public:
  // `broken`: see Lane.
  TcpLane(std::unique_ptr<Stream> stream, std::atomic<Errc>& broken, Nanos max_spin);
  // REQUIRES: the stream outlives the lane. For those who may not allocate.
  TcpLane(Stream& stream, std::atomic<Errc>& broken, Nanos max_spin);

  void fail_all(Errc why) noexcept override;
  void shut() noexcept override { stream_.shut(); }

 private:
  static constexpr std::size_t kBatch = 16;
  static constexpr std::size_t kRequestBytes = wire::Header::kBytes + wire::kMaxSegments * 8;

  Errc send_some() noexcept override;
  // REQUIRES: send_mutex_.
  void fill_batch() noexcept;
  void add_to_batch(Transfer& transfer, std::span<std::byte, kRequestBytes> request) noexcept;
  Errc receive_some(bool* moved) noexcept override;
  bool sleep(const Deadline& deadline, Errc* error) noexcept override;
  bool help(Errc* error) noexcept override;
  Transfer* oldest() noexcept override;
  // REQUIRES: receive_mutex_.
  Errc settle() noexcept;
  Errc check_reply(Transfer* expected) noexcept;
  Errc sort_out(const Transfer& refused, std::size_t bytes) noexcept;
  Errc feed(wire::ByteView bytes) noexcept;
  bool really_sent(const Transfer& transfer) noexcept;

  const std::unique_ptr<Stream> owned_;
  Stream& stream_;

  Mutex flight_mutex_;
  TransferQueue flight_;  // guarded by flight_mutex_

  std::uint32_t next_tag_ = 0;  // guarded by send_mutex_, from here ...
  std::array<std::array<std::byte, kRequestBytes>, kBatch> requests_;
  std::array<iovec, kBatch*(1 + wire::kMaxSegments)> iov_;
  std::size_t iov_begin_ = 0;
  std::size_t iov_end_ = 0;
  std::uint64_t batched_bytes_ = 0;           // of all requests ever put into a batch ... to here
  std::atomic<std::uint64_t> sent_bytes_{0};  // written under send_mutex_; see really_sent()

  wire::Header reply_;           // from here on guarded by receive_mutex_
  std::size_t reply_bytes_ = 0;  // how much of reply_ has come
  std::size_t page_bytes_ = 0;   // how much of its payload has come
  std::array<std::byte, sizeof(wire::Header)> next_reply_;
  std::array<iovec, 2 + wire::kMaxSegments> parts_;
};

}  // namespace comex

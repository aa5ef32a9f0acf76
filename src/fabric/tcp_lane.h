// One data connection of a link or an outpost: transfers go out in the order they were queued, replies come back in
// that order, and pages go straight between the socket and the callers' memory.
//
//   queue_  -->  batch_ (headers and buffers of up to 16 transfers, one sendmsg)  -->  flight_ (sent, reply awaited)
//
// There is no receiving thread: whoever waits for a transfer receives, for itself and for others. One of the waiters
// leads (holds receive_mutex_, spins or polls the socket); the rest follow (sleep on event_) and are woken when their
// transfer is done or the leader leaves.
//
// Locks, in order: receive_mutex_, send_mutex_, flight_mutex_. The leader holds receive_mutex_ across poll, but nobody
// ever waits for that mutex (try_lock only, but in fail_all, after the socket has been shut). send_mutex_ and
// flight_mutex_ are held for non-blocking calls and pointer updates only.
// Fault path: everything but the constructor that takes ownership. Needs neither OpenSSL nor fmt.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "base/mutex.h"
#include "base/spin.h"
#include "fabric/stream.h"
#include "fabric/transfer.h"
#include "wire/message.h"

namespace comex {

// A first-in first-out list of transfers, linked through Transfer::next.
class TransferQueue {
 public:
  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  [[nodiscard]] Transfer* front() const { return head_; }
  void push(Transfer& transfer);
  Transfer* pop();

 private:
  Transfer* head_ = nullptr;
  Transfer* tail_ = nullptr;
};

class TcpLane {
 public:
  // `broken` is the link's: not ok once any lane of it has failed.
  TcpLane(std::unique_ptr<Stream> stream, std::atomic<Errc>& broken, Nanos max_spin);
  // REQUIRES: the stream outlives the lane. For those who may not allocate.
  TcpLane(Stream& stream, std::atomic<Errc>& broken, Nanos max_spin);

  // Errc::ok (also when the link is broken: then the transfer has completed), or why the link must be severed.
  Errc submit(Transfer& transfer) noexcept;
  // Sends and receives what it can at once. Returns as submit.
  Errc progress() noexcept;
  // Waits a while (at most until the transfer's deadline) for `transfer` to complete. The caller loops.
  Errc wait_a_while(Transfer& transfer) noexcept;

  // Completes everything that is queued or in flight with `why`. REQUIRES: shut() was called.
  void fail_all(Errc why) noexcept;
  void shut() noexcept { stream_.shut(); }
  // Transfers queued or in flight.
  [[nodiscard]] std::uint32_t outstanding() const { return outstanding_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kBatch = 16;
  static constexpr std::size_t kRequestBytes = wire::Header::kBytes + wire::kMaxSegments * 8;

  // REQUIRES: send_mutex_.
  Errc send_some() noexcept;
  void fill_batch() noexcept;
  void add_to_batch(Transfer& transfer, std::span<std::byte, kRequestBytes> request) noexcept;
  // REQUIRES: receive_mutex_. One read; *moved says whether anything came.
  Errc receive_some(bool* moved) noexcept;
  Errc settle() noexcept;
  Errc check_reply(Transfer* expected) noexcept;
  Errc sort_out(const Transfer& refused, std::size_t bytes) noexcept;
  Errc feed(wire::ByteView bytes) noexcept;
  // The two ways to wait; see above.
  Errc lead(Transfer& transfer) noexcept;
  Errc follow(Transfer& transfer, std::uint32_t seen) noexcept;

  Errc send_if_idle() noexcept;
  void complete(Transfer& transfer, Errc result) noexcept;
  void announce() noexcept;
  Transfer* oldest() noexcept;
  bool really_sent(const Transfer& transfer) noexcept;

  const std::unique_ptr<Stream> owned_;
  Stream& stream_;
  std::atomic<Errc>& broken_;
  SpinPolicy spin_;
  std::atomic<std::uint32_t> outstanding_{0};
  std::atomic<std::uint32_t> event_{0};  // futex: something completed, or the leader left
  std::atomic<std::uint32_t> followers_{0};

  Mutex flight_mutex_;
  TransferQueue flight_;  // guarded by flight_mutex_

  Mutex send_mutex_;  // guards from here ...
  TransferQueue queue_;
  std::uint32_t next_tag_ = 0;
  std::array<std::array<std::byte, kRequestBytes>, kBatch> requests_;
  std::array<iovec, kBatch*(1 + wire::kMaxSegments)> iov_;
  std::size_t iov_begin_ = 0;
  std::size_t iov_end_ = 0;
  std::uint64_t batched_bytes_ = 0;           // of all requests ever put into a batch ... to here
  std::atomic<std::uint64_t> sent_bytes_{0};  // written under send_mutex_; see really_sent()
  std::atomic<bool> unsent_{false};           // written under send_mutex_; elsewhere a hint

  Mutex receive_mutex_;  // guards from here ...
  wire::Header reply_;
  std::size_t reply_bytes_ = 0;  // how much of reply_ has come
  std::size_t page_bytes_ = 0;   // how much of its payload has come
  std::array<std::byte, sizeof(wire::Header)> next_reply_;
  std::array<iovec, 2 + wire::kMaxSegments> parts_;  // ... to here
};

}  // namespace comex

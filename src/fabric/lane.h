// One data connection of a link or an outpost, whatever the medium: how threads wait on it. TcpLane and RdmaLane say
// how pages move.
//
// There is no receiving thread: whoever waits for a transfer receives, for itself and for others. One of the waiters
// leads (holds receive_mutex_, spins, or sleeps until something comes); the rest follow (sleep on event_) and are woken
// when their transfer is done or the leader leaves. See "Receiving without a receiving thread" in docs/design-notes.md.
//
// The leader holds receive_mutex_ across its sleep, but nobody ever waits for that mutex (try_lock only, but in
// fail_all, after the connection has been shut).
// Fault path: all functions. Needs neither OpenSSL nor fmt.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/expected.h"
#include "base/mutex.h"
#include "base/spin.h"
#include "fabric/transfer.h"

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

class Lane {
 public:
  virtual ~Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Errc::ok (also when the link is broken: then the transfer has completed), or why the link must be severed.
  Errc submit(Transfer& transfer) noexcept;
  // Sends and receives what it can at once. Returns as submit.
  Errc progress() noexcept;
  // Waits a while (at most until the transfer's deadline) for `transfer` to complete. The caller loops.
  Errc wait_a_while(Transfer& transfer) noexcept;

  // Completes everything that is queued or in flight with `why`. REQUIRES: shut() was called.
  virtual void fail_all(Errc why) noexcept = 0;
  // Ends the connection; whoever sleeps on it wakes up.
  virtual void shut() noexcept = 0;
  // Transfers queued or in flight.
  [[nodiscard]] std::uint32_t outstanding() const { return outstanding_.load(std::memory_order_relaxed); }

 protected:
  // `broken` is the link's: not ok once any lane of it has failed.
  Lane(std::atomic<Errc>& broken, Nanos max_spin) : broken_(broken), spin_(max_spin) {}

  // Sends of queue_ what it can at once; unsent_ says whether anything is left. REQUIRES: send_mutex_.
  virtual Errc send_some() noexcept = 0;
  // Sends what could not be sent before, unless somebody else is at it: who then looks again, if there is room by now.
  Errc send_if_idle() noexcept;
  // Takes in what has come; *moved says whether anything had. REQUIRES: receive_mutex_, and fail_all() has not been.
  virtual Errc receive_some(bool* moved) noexcept = 0;
  // The same; whoever sends hears of it. REQUIRES: as above.
  Errc receive(bool* moved) noexcept;
  // Sleeps until something may have come, or more can be sent. False: the deadline has passed. REQUIRES:
  // receive_mutex_.
  virtual bool sleep(const Deadline& deadline, Errc* error) noexcept = 0;
  // The first that is in flight, if any. REQUIRES: receive_mutex_.
  virtual Transfer* oldest() noexcept = 0;
  // What a follower does instead of sleeping when the leader may not know of it. False: nothing.
  virtual bool help(Errc* error) noexcept = 0;

  // The transfer may no longer exist when this returns.
  void complete(Transfer& transfer, Errc result) noexcept;

  std::atomic<Errc>& broken_;
  Mutex receive_mutex_;  // comes before send_mutex_
  Mutex send_mutex_;
  TransferQueue queue_;              // not yet sent, or not whole; guarded by send_mutex_
  std::atomic<bool> unsent_{false};  // written under send_mutex_; elsewhere a hint

 private:
  // send_some(), and once more if there is room by then. REQUIRES: send_mutex_, which is free afterwards.
  Errc send_and_unlock() noexcept;
  // The two ways to wait; see above.
  Errc lead(Transfer& transfer) noexcept;
  Errc follow(Transfer& transfer, std::uint32_t seen) noexcept;
  void announce() noexcept;

  SpinPolicy spin_;
  std::atomic<bool> room_{false};  // something has come since somebody last began to send
  std::atomic<std::uint32_t> outstanding_{0};
  std::atomic<std::uint32_t> event_{0};  // futex: something completed, or the leader left
  std::atomic<std::uint32_t> followers_{0};
};

}  // namespace comex

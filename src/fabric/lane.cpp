#include "fabric/lane.h"

#include <mutex>

#include "base/futex.h"

namespace comex {
namespace {

// The longest a follower sleeps before it looks by itself.
constexpr auto kFollowerNap = std::chrono::milliseconds(50);

}  // namespace

void TransferQueue::push(Transfer& transfer) {
  transfer.next = nullptr;
  (head_ == nullptr ? head_ : tail_->next) = &transfer;
  tail_ = &transfer;
}

Transfer* TransferQueue::pop() {
  Transfer* const first = head_;
  if (first != nullptr) head_ = first->next;
  return first;
}

Errc Lane::submit(Transfer& transfer) noexcept {
  send_mutex_.lock();
  // Looked at under the mutex: fail_all comes after broken_ is set and takes the mutex, so nothing can be queued
  // behind its back.
  if (const Errc why = broken_.load(std::memory_order_acquire); why != Errc::ok) {
    send_mutex_.unlock();
    transfer.finish(why);
    return Errc::ok;
  }
  outstanding_.fetch_add(1, std::memory_order_relaxed);
  queue_.push(transfer);
  return send_and_unlock();
}

Errc Lane::send_if_idle() noexcept {
  if (!unsent_.load(std::memory_order_relaxed) || !send_mutex_.try_lock()) return Errc::ok;
  return send_and_unlock();
}

// Room that a leader makes while this holds the mutex the leader cannot use; it goes to sleep. So room_ is cleared
// before, and looked at after the mutex is free: either the leader finds it free, or what the leader said is seen here.
Errc Lane::send_and_unlock() noexcept {
  for (;;) {
    room_.exchange(false);
    // There may be no connection any more; fail_all() sees to the rest.
    const bool broken = broken_.load(std::memory_order_acquire) != Errc::ok;
    const Errc error = broken ? Errc::ok : send_some();
    send_mutex_.unlock();
    if (error != Errc::ok || !room_.load() || !unsent_.load(std::memory_order_relaxed)) return error;
    if (!send_mutex_.try_lock()) return error;  // whoever has it looks again
  }
}

Errc Lane::receive(bool* moved) noexcept {
  const Errc error = receive_some(moved);
  if (*moved) room_.store(true);
  return error;
}

void Lane::complete(Transfer& transfer, Errc result) noexcept {
  outstanding_.fetch_sub(1, std::memory_order_relaxed);
  transfer.finish(result);  // from here on it may no longer exist
  announce();
}

void Lane::announce() noexcept {
  event_.fetch_add(1);
  if (followers_.load() > 0) futex_wake_all(event_);
}

Errc Lane::progress() noexcept {
  if (outstanding() == 0) return Errc::ok;
  if (const Errc error = send_if_idle(); error != Errc::ok) return error;
  if (!receive_mutex_.try_lock()) return Errc::ok;  // a leader is at it
  Errc error = Errc::ok;
  {
    const std::lock_guard lock(receive_mutex_, std::adopt_lock);
    // Since the look at what is outstanding the lane may have ended: what came before that is nobody's any more.
    bool moved = broken_.load(std::memory_order_acquire) == Errc::ok;
    while (moved && error == Errc::ok) error = receive(&moved);
    const Transfer* const first = oldest();
    if (error == Errc::ok && first != nullptr && recent_now() >= first->deadline) error = Errc::timeout;
  }
  announce();
  return error;
}

Errc Lane::wait_a_while(Transfer& transfer) noexcept {
  // Read before trying to lead: if the leader leaves after that, event_ has moved on and follow() returns at once.
  const std::uint32_t seen = event_.load();
  if (!receive_mutex_.try_lock()) return follow(transfer, seen);
  Errc error = Errc::ok;
  {
    const std::lock_guard lock(receive_mutex_, std::adopt_lock);
    error = lead(transfer);
  }
  announce();
  return error;
}

Errc Lane::lead(Transfer& transfer) noexcept {
  Errc error = Errc::ok;
  const auto ready = [&]() noexcept {
    bool moved = true;
    while (moved && error == Errc::ok && !transfer.done()) error = receive(&moved);
    if (error == Errc::ok) error = send_if_idle();
    return error != Errc::ok || transfer.done();
  };
  // No look at the clock for what has come by now: it may cost a tenth of what the device takes for a page.
  const bool at_once = ready();
  const auto start = at_once ? Clock::time_point() : Clock::now();
  if (at_once || spin_.spin(ready)) {
    spin_.observe_caught();
    return error;
  }
  do {
    if (!sleep(Deadline::at(transfer.deadline), &error) || error != Errc::ok) break;
  } while (!spin_.spin(ready));
  spin_.observe(Clock::now() - start);
  return error;
}

Errc Lane::follow(Transfer& transfer, std::uint32_t seen) noexcept {
  if (spin_.spin([&] { return transfer.done() || event_.load(std::memory_order_relaxed) != seen; })) return Errc::ok;
  followers_.fetch_add(1);
  Errc error = Errc::ok;
  if (!help(&error) && !transfer.done()) futex_wait(event_, seen, kFollowerNap);
  followers_.fetch_sub(1);
  return error;
}

}  // namespace comex

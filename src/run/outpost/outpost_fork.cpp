// An outpost and fork. See "Fork with a keeper" in docs/design-notes.md.
#include <poll.h>

#include <array>
#include <mutex>
#include <new>

#include "base/wait_ready.h"
#include "run/lifeline.h"
#include "run/outpost/outpost.h"
#include "run/own_descriptors.h"

namespace comex {

namespace kw = keeper_wire;

// When the keeper's answer is here, so is everything it granted before: what this process knows to be its own is what
// the heir holds. Nothing more is received until the fork is over, so the child finds lists that say just that.
Errc Outpost::before_fork(const Deadline& deadline) noexcept {
  tend_mutex_.lock();
  const Errc asked = ask_for_heir(deadline);
  if (asked != Errc::ok) {
    heir_socket_.reset();
    heir_lifeline_.reset();
    tend_mutex_.unlock();
    return asked;
  }
  frames_mutex_.lock();
  returns_mutex_.lock();
  return Errc::ok;
}

Errc Outpost::ask_for_heir(const Deadline& deadline) noexcept {
  while (!keeper_gone() && !send_all_returns()) {
    if (!wait_ready(socket_.get(), POLLOUT, deadline)) return Errc::timeout;
  }
  while (!keeper_gone() && say(kw::Type::heir, {}) != Errc::ok) {
    if (!wait_ready(socket_.get(), POLLOUT, deadline)) return Errc::timeout;
  }
  ++heirs_due_;
  for (;;) {
    receive();
    if (keeper_gone()) return Errc::fenced;
    // The last answer is the one to this request.
    if (heirs_due_ == 0) return heir_socket_ && heir_lifeline_ ? Errc::ok : Errc::busy;
    if (!wait_ready(socket_.get(), POLLIN, deadline)) return Errc::timeout;
  }
}

Errc Outpost::send_heir(int socket) noexcept {
  std::byte one{1};
  const std::array fds{heir_socket_.get(), heir_lifeline_.get()};
  const Errc sent = send_packet(socket, std::array{iovec{&one, sizeof one}}, fds);
  heir_socket_.reset();
  heir_lifeline_.reset();
  return sent;
}

Errc Outpost::take_heir(int socket) noexcept {
  std::byte one{};
  ReceivedFds fds;
  (void)receive_packet(socket, {&one, sizeof one}, fds);
  heir_socket_ = fds.take(0);
  heir_lifeline_ = fds.take(1);
  return heir_socket_ && heir_lifeline_ ? Errc::ok : Errc::busy;
}

void Outpost::after_fork_in_parent() noexcept {
  heir_socket_.reset();
  heir_lifeline_.reset();
  returns_mutex_.unlock();
  frames_mutex_.unlock();
  tend_mutex_.unlock();
}

Errc Outpost::after_fork_in_child(bool docked) noexcept {
  // No other thread is here; those of the parent that waited for a lock will never come.
  for (Mutex* const mutex : {&tend_mutex_, &frames_mutex_, &returns_mutex_}) new (mutex) Mutex;
  own_descriptors.drop(socket_.get());
  socket_ = own_descriptors.adopt(std::move(heir_socket_));
  lifeline_ = grasp_lifeline(heir_lifeline_.get());  // the parent's is not mapped here
  heir_lifeline_.reset();
  if (dock_.is_open()) {
    own_descriptors.drop(dock_.file());
    Fd file = docked ? own_descriptors.adopt(Dock::make_file(dock_.bytes())) : Fd();
    const int number = file.get();
    const Errc renewed = dock_.renew(std::move(file));
    if (dock_.file() < 0) own_descriptors.drop(number);
    if (renewed != Errc::ok) return renewed;
  }
  welcomed_ = false;
  asked_ = 0;
  heirs_due_ = 0;
  // Nothing of this process is under way; and whatever it begins sees the seals that its parent has yet to answer.
  ages_.forget();
  seal_heard_ = seal_pending_ = seal_answered_ = 0;
  workrooms_.leave_all();
  tidy_.store(false, std::memory_order_relaxed);  // what parent and child both hold is not made free by one of them
  stock_ = config_.first_stock;
  for_each_node([](OutpostNode& node) { node.after_fork(); });
  // What is at hand is the parent's to use; this process holds it too, and lets go of it.
  Run run;
  while (at_hand_.move_out({&run, 1}) == 1) give_back_unless_full(run);
  if (lifeline_ == nullptr) {
    gone();
    return Errc::io;
  }
  return greet(Deadline(config_.welcome));
}

}  // namespace comex

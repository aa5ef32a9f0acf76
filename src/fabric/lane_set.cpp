#include "fabric/lane_set.h"

namespace comex {

// An urgent transfer takes a lane that is idle, if there is one; bulk stays on its thread's lane and out of the way.
std::uint32_t LaneSet::pick(Priority priority, std::uint32_t who) const noexcept {
  const std::uint32_t own = who % count_;
  if (priority != Priority::urgent) return own;
  for (std::uint32_t i = 0; i < count_; ++i) {
    const std::uint32_t candidate = (own + i) % count_;
    if (lanes_[candidate]->outstanding() == 0) return candidate;
  }
  return own;
}

void LaneSet::submit(Transfer& transfer, std::uint32_t who) noexcept {
  transfer.begin();
  const Errc unfit = count_ == 0 ? Errc::unsupported : transfer.check();
  if (unfit != Errc::ok) {
    transfer.finish(unfit);
    return;
  }
  transfer.deadline = recent_now() + transfer_timeout_;
  transfer.lane = pick(transfer.priority, who);
  if (const Errc error = lanes_[transfer.lane]->submit(transfer); error != Errc::ok) sever(error);
}

void LaneSet::progress() noexcept {
  for (std::uint32_t i = 0; i < count_; ++i) {
    if (const Errc error = lanes_[i]->progress(); error != Errc::ok) return sever(error);
  }
}

Errc LaneSet::wait(Transfer& transfer) noexcept {
  while (!transfer.done()) {
    Errc error = lanes_[transfer.lane]->wait_a_while(transfer);
    if (error == Errc::ok && !transfer.done() && Clock::now() >= transfer.deadline) error = Errc::timeout;
    if (error != Errc::ok) sever(error);
  }
  return transfer.result();
}

void LaneSet::sever(Errc why) noexcept {
  Errc none = Errc::ok;
  broken_.compare_exchange_strong(none, why);
  for (std::uint32_t i = 0; i < count_; ++i) lanes_[i]->shut();
  for (std::uint32_t i = 0; i < count_; ++i) lanes_[i]->fail_all(broken());
}

}  // namespace comex

#include "fabric/faulty_link.h"

#include <sched.h>

#include <algorithm>
#include <vector>

namespace comex {

FaultyLink::FaultyLink(std::unique_ptr<Link> inner, const FaultPlan& plan)
    : inner_(std::move(inner)), plan_(plan), random_(plan.seed) {
  session_ = inner_->session();
  node_ = inner_->node();
}

FaultyLink::~FaultyLink() {
  sever(Errc::disconnected);
}

void FaultyLink::submit(Transfer& transfer) noexcept {
  transfer.begin();
  if (const Errc why = broken(); why != Errc::ok) return transfer.finish(why);
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t step = ++step_;
    Pending& pending = pending_.emplace_back();
    pending.outer = &transfer;
    pending.due = Clock::now() + plan_.delay;
    const bool dropped = plan_.drop_every > 0 && step % plan_.drop_every == 0;
    if (dropped) pending.due = Clock::now() + plan_.transfer_timeout;
    // The one that ends the link is never overdue: whoever looks before that is done would say that it was late.
    if (step == plan_.die_at) pending.due = Clock::time_point::max();
    if (step != plan_.die_at) {
      if (dropped) return;
      pending.inner = std::make_unique<Transfer>(transfer.direction, transfer.segments, transfer.priority);
      inner_->submit(*pending.inner);
      return;
    }
  }
  sever(Errc::disconnected);
}

bool FaultyLink::ready(const Pending& pending, Clock::time_point now) const {
  return pending.inner && pending.inner->done() && now >= pending.due;
}

void FaultyLink::progress() noexcept {
  inner_->progress();
  const auto now = Clock::now();
  bool overdue = false;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::list<Pending>::iterator> finished;
    for (auto it = pending_.begin(); it != pending_.end(); ++it) {
      if (ready(*it, now)) finished.push_back(it);
      overdue |= !it->inner && now >= it->due;
    }
    if (plan_.reorder) std::shuffle(finished.begin(), finished.end(), random_);
    for (const auto it : finished) {
      it->outer->finish(it->inner->result());
      pending_.erase(it);
    }
  }
  if (overdue) sever(Errc::timeout);
}

Errc FaultyLink::wait(Transfer& transfer) noexcept {
  while (!transfer.done()) {
    progress();
    sched_yield();
  }
  return transfer.result();
}

void FaultyLink::sever(Errc why) noexcept {
  inner_->sever(why);
  const std::lock_guard lock(mutex_);
  fail_pending(inner_->broken());
}

// The inner link is severed, so every inner transfer has completed and its memory is free.
void FaultyLink::fail_pending(Errc why) {
  for (auto& pending : pending_) {
    if (pending.inner) inner_->wait(*pending.inner);
    pending.outer->finish(why);
  }
  pending_.clear();
}

Expected<std::vector<std::byte>> FaultyLink::call(wire::Type type, std::span<const std::byte> body) {
  return inner_->call(type, body);
}

}  // namespace comex

#include "pool/link_gate.h"

#include <thread>

#include "base/clock.h"

namespace comex {
namespace {

constexpr auto kLookAgain = std::chrono::microseconds(50);

}  // namespace

LinkGate::Pass LinkGate::enter(NodeId session) noexcept {
  if (link_.load(std::memory_order_relaxed) == nullptr) return {};
  Turnstile::Stripe& stripe = inside_.enter();
  Link* const link = link_.load(std::memory_order_seq_cst);
  if (link == nullptr || session_.load(std::memory_order_relaxed) != session.value) {
    Turnstile::leave(stripe);
    return {};
  }
  return Pass(link, &stripe);
}

void LinkGate::open(NodeId session, std::unique_ptr<Link> link) noexcept {
  owned_ = std::move(link);
  session_.store(session.value, std::memory_order_relaxed);
  link_.store(owned_.get(), std::memory_order_seq_cst);
}

void LinkGate::close(Errc why) noexcept {
  if (owned_ == nullptr) return;
  link_.store(nullptr, std::memory_order_seq_cst);
  owned_->sever(why);
  while (inside_.anybody()) {
    owned_->progress();
    std::this_thread::sleep_for(kLookAgain);
  }
  owned_->progress();
  owned_.reset();
}

}  // namespace comex

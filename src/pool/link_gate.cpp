#include "pool/link_gate.h"

#include <algorithm>
#include <thread>

#include "base/clock.h"

namespace comex {
namespace {

constexpr auto kLookAgain = std::chrono::microseconds(50);

// Threads are told apart by where their stacks are: no thread-local storage, which may be allocated on first use.
std::size_t stack_number() noexcept {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return (here >> 16) * 0x9e3779b97f4a7c15 >> 60;
}

}  // namespace

LinkGate::Pass LinkGate::enter(NodeId session) noexcept {
  static_assert(kStripes == 16, "stack_number() gives four bits");
  if (link_.load(std::memory_order_relaxed) == nullptr) return {};
  Stripe& stripe = stripes_[stack_number()];
  stripe.inside.fetch_add(1, std::memory_order_seq_cst);
  Link* const link = link_.load(std::memory_order_seq_cst);
  if (link == nullptr || session_.load(std::memory_order_relaxed) != session.value) {
    stripe.inside.fetch_sub(1, std::memory_order_release);
    return {};
  }
  return Pass(link, &stripe);
}

void LinkGate::open(NodeId session, std::unique_ptr<Link> link) noexcept {
  owned_ = std::move(link);
  session_.store(session.value, std::memory_order_relaxed);
  link_.store(owned_.get(), std::memory_order_seq_cst);
}

bool LinkGate::anybody_inside() const noexcept {
  return std::any_of(stripes_.begin(), stripes_.end(),
                     [](const Stripe& stripe) { return stripe.inside.load(std::memory_order_seq_cst) != 0; });
}

void LinkGate::close(Errc why) noexcept {
  if (owned_ == nullptr) return;
  link_.store(nullptr, std::memory_order_seq_cst);
  owned_->sever(why);
  while (anybody_inside()) {
    owned_->progress();
    std::this_thread::sleep_for(kLookAgain);
  }
  owned_->progress();
  owned_.reset();
}

}  // namespace comex

#include "pool/member.h"

#include <thread>
#include <utility>

namespace comex {

std::string_view to_string(MemberState state) {
  switch (state) {
    case MemberState::connecting: return "connecting";
    case MemberState::up: return "up";
    case MemberState::aside: return "aside";
    case MemberState::lost: return "lost";
  }
  return "unknown";
}

std::string_view to_string(Role role) {
  switch (role) {
    case Role::idle: return "idle";
    case Role::standby: return "standby";
    case Role::active: return "active";
    case Role::scraps: return "scraps";
  }
  return "unknown";
}

Member::Member(NodeId id, Url url, const MemberConfig& config)
    : config_(config),
      url_(std::move(url)),
      extents_(config.extent_capacity),
      returns_(config.returns),
      id_(id.value) {}

bool Member::usable() const noexcept {
  return state() == MemberState::up && !suspect_.load(std::memory_order_relaxed);
}

std::optional<Run> Member::take(std::uint32_t want) noexcept {
  if (!usable()) return std::nullopt;
  const std::uint32_t low = threshold_.load(std::memory_order_relaxed);
  const auto taken = extents_.take(want);
  if (!taken) {
    // Dry although it should not be: the threshold was raised at the very moment it was crossed, perhaps.
    if (low > 0 && !refusing()) alarm_.advance();
    return std::nullopt;
  }
  meter_.add(taken->run.count);
  if (taken->left < low && taken->left + taken->run.count >= low) alarm_.advance();
  return taken->run;
}

void Member::put_back(const Run& run) noexcept {
  if (run.count > 0 && !extents_.put_back(run)) give_back(run);
}

void Member::give_back(const Run& run) noexcept {
  if (returns_.put(run)) alarm_.advance();
}

Errc Member::absent(NodeId node) const noexcept {
  return node == id() ? Errc::disconnected : Errc::fenced;
}

void Member::report(Errc result) noexcept {
  if (result == Errc::ok || result == Errc::invalid) return;
  suspect_.store(true, std::memory_order_relaxed);
  alarm_.advance();
}

void Member::submit(NodeId node, Transfer& transfer) noexcept {
  if (const auto pass = gate_.enter(node)) {
    pass->submit(transfer);
    return;
  }
  transfer.begin();
  transfer.finish(absent(node));
}

void Member::poll(NodeId node) noexcept {
  if (const auto pass = gate_.enter(node)) pass->progress();
}

Errc Member::wait(NodeId node, Transfer& transfer) noexcept {
  for (;;) {
    {
      const auto pass = gate_.enter(node);
      // After entering: if the link is another than the one submitted to, the transfer is done (see link_gate.h).
      if (!transfer.done() && pass) (void)pass->wait(transfer);
    }
    if (transfer.done()) break;
    // The link is being closed, which completes the transfer in a moment.
    std::this_thread::yield();
  }
  report(transfer.result());
  return transfer.result();
}

Errc Member::move(NodeId node, Transfer& transfer) noexcept {
  {
    const auto pass = gate_.enter(node);
    if (!pass) return absent(node);
    (void)pass->move(transfer);
  }
  report(transfer.result());
  return transfer.result();
}

Errc Member::wait_until_decided(NodeId node, const Deadline& deadline) noexcept {
  for (;;) {
    const auto seen = decided_.current();
    if (id() != node) return Errc::fenced;
    if (const auto pass = gate_.enter(node)) {
      const Errc broken = pass->broken();
      if (broken == Errc::ok) return Errc::ok;
      report(broken);  // the keeper may not have noticed: nobody else need be using this link
    }
    if (!decided_.wait(seen, deadline.when())) return Errc::timeout;
  }
}

void Member::set_role(Role role) noexcept {
  if (role_.exchange(role, std::memory_order_relaxed) != role) alarm_.advance();
}

void Member::set_state(MemberState state) noexcept {
  state_.store(state, std::memory_order_release);
  decided_.advance();
}

std::uint64_t Member::end_session() noexcept {
  const std::uint64_t taken = extents_.reset(kNowhere, 0);
  const std::uint64_t returned = returns_.reset(kNowhere, 0);
  return taken > returned ? taken - returned : 0;
}

wire::NodeLoad Member::load() const {
  const std::lock_guard lock(details_mutex_);
  return details_.load;
}

MemberStatus Member::status() const {
  MemberStatus status;
  status.node = id();
  status.url = url_.text();
  status.state = state();
  status.role = role();
  status.threshold = threshold_.load(std::memory_order_relaxed);
  status.at_hand = at_hand();
  const std::uint64_t returned = returns_.returned();  // before taken(): the difference must not fall below zero
  const std::uint64_t taken = extents_.taken();
  status.in_use = taken > returned ? taken - returned : 0;
  status.stranded = returns_.stranded();
  const std::lock_guard lock(details_mutex_);
  status.info = details_.info;
  status.load = details_.load;
  status.asked = details_.asked;
  status.round_trip = details_.round_trip;
  status.losses = details_.losses;
  status.last_error = details_.last_error;
  return status;
}

}  // namespace comex

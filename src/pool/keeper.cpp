#include "pool/keeper.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <utility>

namespace comex {
namespace {

double seconds(Nanos span) {
  return std::chrono::duration<double>(span).count();
}

}  // namespace

Keeper::Keeper(Member& member, LinkOptions options, Connector connector, unsigned nodes, std::uint64_t seed,
               Hooks hooks)
    : member_(member),
      options_(std::move(options)),
      connector_(std::move(connector)),
      nodes_(nodes),
      hooks_(std::move(hooks)),
      estimator_(member.config_.refill),
      backoff_(member.config_.backoff_first, member.config_.backoff_longest, seed),
      ask_backoff_(member.config_.ask_again_first, member.config_.ask_again_longest, seed + 1) {}

Keeper::~Keeper() {
  request_stop();
  finish(Deadline(Millis(0)));
}

void Keeper::start() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Keeper::request_stop() noexcept {
  stopping_.store(true, std::memory_order_release);
  member_.ring();
}

void Keeper::finish(const Deadline& deadline) {
  if (!thread_.joinable()) return;
  for (;;) {
    const auto seen = end_.current();
    if (ended_.load(std::memory_order_acquire) || !end_.wait(seen, deadline.when())) break;
  }
  if (!ended_.load(std::memory_order_acquire)) {
    if (const auto pass = member_.gate_.enter(member_.id())) pass->sever(Errc::disconnected);
  }
  thread_.join();
}

void Keeper::run() {
  while (!stopping_.load(std::memory_order_acquire)) {
    const auto seen = member_.alarm_.current();
    if (member_.gate_.link() != nullptr) {
      tend();
    } else {
      reconnect();
    }
    member_.alarm_.wait(seen, next_wake());
  }
  leave();
  ended_.store(true, std::memory_order_release);
  end_.advance();
}

Keeper::Time Keeper::next_wake() const {
  if (member_.gate_.link() == nullptr) {
    if (given_up_) return Clock::now() + std::chrono::hours(1);
    return session_ && lease_ > Nanos::zero() ? std::min(try_at_, lease_end()) : try_at_;
  }
  Time wake = beat_at_;
  if (const auto due = member_.returns_.due_at()) wake = std::min(wake, *due);
  if (wants_frames()) wake = std::min(wake, ask_at_);
  return wake;
}

void Keeper::leave() {
  if (Link* const link = member_.gate_.link()) link->bye();
  member_.gate_.close(Errc::disconnected);
}

// --- without a link ---

void Keeper::reconnect() {
  if (given_up_) return;
  if (session_ && lease_ > Nanos::zero() && Clock::now() >= lease_end()) {
    lose(fmt::format("not reached for {:.1f} s; it takes frames back after {:.1f} s", seconds(Clock::now() - heard_at_),
                     seconds(lease_)));
    hooks_.changed();
    return;
  }
  if (Clock::now() < try_at_) return;
  LinkOptions options = options_;
  options.resume = session_;
  auto link = connector_(member_.url_, options);
  if (link && session_ && (*link)->session().boot_id != session_->boot_id) {
    link = Error{Errc::fenced, "the node has been restarted"};
  }
  if (link) {
    attach(*std::move(link));
  } else if (link.error().code == Errc::fenced && session_) {
    lose(link.error().message);
  } else {
    remember(link.error().message);
    if (member_.state() == MemberState::connecting) {
      tell(fmt::format("not reached ({}); trying again", link.error().message));
      member_.set_state(MemberState::aside);
    }
    try_later();
  }
  tried_.store(true, std::memory_order_release);
  hooks_.changed();
}

Nanos Keeper::beat_interval() const {
  // A node without a lease does not need to hear from us; we want to hear from it now and then.
  const Nanos hear(asked_ ? member_.config_.hear_asked : member_.config_.hear);
  return lease_ > Nanos::zero() ? std::min(std::max(lease_ / 3, Nanos(Millis(1))), hear) : hear;
}

void Keeper::try_later() {
  Nanos wait = backoff_.next();
  // While there are frames to save, no pause is so long that the lease slips away in it.
  if (session_ && lease_ > Nanos::zero()) wait = std::min(wait, lease_ / 4);
  try_at_ = Clock::now() + wait;
}

bool Keeper::attach(std::unique_ptr<Link> link) {
  const NodeInfo& info = link->node();
  if (session_) {
    if (!pick_up_session(*link)) return false;
  } else {
    slabs_.begin(info);
    member_.extents_.reset(member_.id(), info.slab_order);
    member_.returns_.reset(member_.id(), info.slab_order);
    member_.refusing_.store(false, std::memory_order_relaxed);
  }
  const bool resumed = session_.has_value();
  session_ = link->session();
  member_.boot_id_.store(session_->boot_id, std::memory_order_relaxed);
  lease_ = info.lease;
  heard_at_ = decayed_at_ = ask_at_ = Clock::now();
  beat_at_ = Clock::now();  // at once: the first beat brings the load and a round trip
  {
    const std::lock_guard lock(member_.details_mutex_);
    member_.details_.info = info;
    if (!resumed) member_.details_.asked.clear();
    member_.details_.last_error.clear();
  }
  const bool first = member_.state() == MemberState::connecting;
  member_.gate_.open(member_.id(), std::move(link));
  member_.suspect_.store(false, std::memory_order_relaxed);
  member_.set_state(MemberState::up);
  if (!first) tell(resumed ? "back, with our frames" : "back, with a new session");
  return true;
}

// What a resumed session has to settle before it is used. False if the link broke over it.
bool Keeper::pick_up_session(Link& link) {
  if (!sending_.empty()) {
    // Denied as a whole means that it had arrived before the link broke.
    auto sent = link.give_back(sending_);
    if (!sent && sent.error().code != Errc::denied) return not_picked_up(sent.error());
    for (const Extent& extent : sending_) slabs_.returned(extent);
    sending_.clear();
  }
  // After that: only now is it certain which slabs are still ours.
  if (auto reached = link.reach(slabs_.to_reach()); !reached) return not_picked_up(reached.error());
  return true;
}

bool Keeper::not_picked_up(const Error& error) {
  if (error.code == Errc::fenced) {
    lose(error.message);
  } else {
    remember(error.message);
    try_later();
  }
  return false;
}

// --- when things go wrong ---

bool Keeper::failed(const Error& error) {
  if (error.code == Errc::fenced) {
    lose(error.message);
  } else {
    remember(error.message);
    member_.set_state(MemberState::aside);
    member_.gate_.close(error.code);
    tell(fmt::format("set aside ({}); trying again", error.message));
    try_later();
  }
  hooks_.changed();
  return false;
}

void Keeper::lose(const std::string& reason) {
  member_.set_state(MemberState::lost);
  member_.gate_.close(Errc::fenced);
  session_.reset();
  member_.boot_id_.store(0, std::memory_order_relaxed);
  sending_.clear();
  asked_ = false;
  const std::uint64_t frames = member_.end_session();
  remember(reason);
  // Not at once: a node that fences everybody would have everybody back at the same moment.
  try_at_ = Clock::now() + backoff_.next();
  if (frames == 0) return;
  const NodeId dead = member_.id();
  const auto id = hooks_.new_id();
  given_up_ = !id;
  if (given_up_) tell("lost our frames too often; it is not used any more");
  member_.id_.store(id.value_or(kNowhere).value, std::memory_order_release);
  member_.set_state(MemberState::lost);  // again, for those who wait for the id to change
  {
    const std::lock_guard lock(member_.details_mutex_);
    ++member_.details_.losses;
  }
  hooks_.lost(Loss{dead, member_.url_.text(), reason, frames});
}

void Keeper::remember(const std::string& error) {
  const std::lock_guard lock(member_.details_mutex_);
  member_.details_.last_error = error;
}

void Keeper::tell(const std::string& what) const {
  hooks_.notice(fmt::format("{}: {}", member_.url_.text(), what));
}

}  // namespace comex

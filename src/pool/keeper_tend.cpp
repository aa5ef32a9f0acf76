// What a keeper does while its link stands: beats, refills, returns.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pool/batch.h"
#include "pool/keeper.h"

namespace comex {
namespace {

// Of a place for a batch.
constexpr std::uint8_t kHoleOrder = 6;
static_assert(kBatchPages == 1U << kHoleOrder);

}  // namespace

void Keeper::tend() {
  const Errc broken = member_.gate_.link()->broken();
  if (broken != Errc::ok) {
    failed(Error{broken, broken == Errc::fenced ? "it stopped, or had not heard from us for longer than its lease"
                                                : std::string(to_string(broken))});
    return;
  }
  const bool suspect = member_.suspect_.load(std::memory_order_relaxed);
  if ((suspect || Clock::now() >= beat_at_) && !beat()) return;
  update_threshold();
  if (!send_returns() || !send_unused() || !send_asked()) return;
  if (wants_frames() && Clock::now() >= ask_at_) refill();
}

bool Keeper::beat() {
  const auto start = Clock::now();
  auto load = member_.gate_.link()->beat();
  if (!load) return failed(load.error());
  const Nanos took = Clock::now() - start;
  heard(took);
  beat_at_ = Clock::now() + beat_interval();
  member_.suspect_.store(false, std::memory_order_relaxed);
  member_.meter_.decay(Clock::now() - decayed_at_, member_.config_.refill.peak_half_life);
  decayed_at_ = Clock::now();
  update_load(*load);
  if (!hear_asked(load->asked)) return false;
  judge_speed(took);
  hooks_.changed();
  return true;
}

void Keeper::heard(Nanos took) {
  heard_at_ = Clock::now();
  estimator_.saw_round_trip(took);
  const std::lock_guard lock(member_.details_mutex_);
  member_.details_.round_trip = estimator_.round_trip();
}

void Keeper::judge_speed(Nanos took) {
  const bool slow = took > member_.config_.slow_beat;
  const MemberState state = member_.state();
  if (slow) {
    beat_at_ = Clock::now() + std::min(backoff_.next(), beat_interval());
    if (state != MemberState::up) return;
    const std::string what = fmt::format("slow: a beat took {} ms", std::chrono::ceil<Millis>(took).count());
    remember(what);
    tell(what + "; new pages go elsewhere");
    member_.set_state(MemberState::aside);
  } else if (state == MemberState::aside) {
    tell("fast enough again");
    member_.set_state(MemberState::up);
  } else {
    backoff_.reset();  // only now: a node that accepts us and breaks at once is not tried at full speed for ever
  }
}

void Keeper::update_load(const wire::NodeLoad& load) {
  estimator_.saw_load(load);
  {
    const std::lock_guard lock(member_.details_mutex_);
    member_.details_.load = load;
  }
  const bool room = load.largest_free >= (1U << (asked_ ? kHoleOrder : kUsualMinOrder));
  if (!room || Clock::now() < ask_at_) return;
  if (member_.refusing_.exchange(false, std::memory_order_relaxed)) hooks_.changed();
}

void Keeper::update_threshold() {
  std::uint32_t threshold = 0;
  switch (member_.role()) {
    case Role::idle: break;
    case Role::standby: threshold = member_.config_.standby_frames; break;
    case Role::active:
    case Role::scraps:
      threshold = refill_threshold(estimator_.model(member_.meter_.peak_per_us(), nodes_), member_.config_.refill);
  }
  member_.threshold_.store(threshold, std::memory_order_relaxed);
}

bool Keeper::wants_frames() const {
  if (member_.state() != MemberState::up) return false;
  if (member_.refusing() && member_.role() != Role::scraps) return false;
  return member_.at_hand() < member_.threshold_.load(std::memory_order_relaxed);
}

bool Keeper::refill() {
  const std::uint32_t threshold = member_.threshold_.load(std::memory_order_relaxed);
  const std::uint32_t ask = frames_to_ask(threshold, member_.at_hand(), member_.config_.refill);
  const bool scraps = member_.role() == Role::scraps && member_.refusing();
  const auto start = Clock::now();
  wire::Grant request{ask, scraps ? std::uint8_t{0} : std::uint8_t{kUsualMinOrder}};
  // What moves out of a slab is to fill a hole in another. It would break what the node empties slabs for.
  if (asked_ && !scraps) request = {kBatchPages, kHoleOrder};
  auto reply = member_.gate_.link()->grant(request.frames, request.min_order);
  const Nanos took = Clock::now() - start;
  if (!reply) {
    const Errc code = reply.error().code;
    const bool over = code == Errc::fenced || code == Errc::timeout || code == Errc::disconnected;
    if (over) return failed(reply.error());
    heard(took);
    refused(reply.error());
    return true;
  }
  heard(took);
  if (took > member_.config_.slow_beat) beat_at_ = Clock::now();  // a beat will tell whether it is slow in earnest
  accept(*reply);
  return true;
}

void Keeper::accept(const wire::GrantReply& reply) {
  ask_backoff_.reset();
  std::vector<Extent> excess;
  for (const Extent& extent : reply.extents) {
    slabs_.granted(extent);
    if (!member_.extents_.add(member_.id(), extent)) excess.push_back(extent);
  }
  const bool scraps = member_.refusing();
  update_load(reply.load);
  if (reply.extents.empty() || !excess.empty() || scraps) ask_at_ = Clock::now() + ask_backoff_.next();
  hooks_.frames_arrived();
  if (!excess.empty()) send(std::move(excess));
}

void Keeper::refused(const Error& error) {
  ask_at_ = Clock::now() + ask_backoff_.next();
  if (error.code != Errc::no_memory) remember(error.message);
  if (!member_.refusing_.exchange(true, std::memory_order_relaxed)) hooks_.changed();
}

bool Keeper::send_returns() {
  const auto due = member_.returns_.due_at();
  if (!due || *due > Clock::now()) return true;
  std::vector<Extent> batch;
  member_.returns_.take_batch(batch);
  return send(std::move(batch));
}

// A node that is less wanted than it was has no use for all these frames at hand; others have.
bool Keeper::send_unused() {
  const Role role = member_.role();
  if (role == Role::active || role == Role::scraps || member_.refusing()) return true;
  const std::uint32_t keep = role == Role::standby ? 2 * member_.config_.standby_frames : 0;
  if (member_.at_hand() <= 2 * keep) return true;  // twice: not to send back what was asked for a moment ago
  std::vector<Extent> unused;
  member_.extents_.drain(unused, keep);
  return send(std::move(unused));
}

// Which slabs the node wants empty. What is in use there is for others to move: see MemberStatus::asked.
bool Keeper::hear_asked(std::uint32_t frames) {
  std::vector<std::uint32_t> slabs;
  if (frames > 0) {
    auto asked = member_.gate_.link()->asked();
    if (!asked) return failed(asked.error());
    slabs = *std::move(asked);
  }
  asked_ = !slabs.empty();
  const std::lock_guard lock(member_.details_mutex_);
  member_.details_.asked = std::move(slabs);
  return true;
}

// What is at hand in slabs that the node wants empty.
bool Keeper::send_asked() {
  if (!asked_) return true;
  std::vector<Extent> extents;
  {
    const std::lock_guard lock(member_.details_mutex_);
    const auto& slabs = member_.details_.asked;
    const unsigned order = member_.details_.info.slab_order;
    member_.extents_.drain_if(extents, [&](const Extent& extent) {
      return std::find(slabs.begin(), slabs.end(), extent.first.value >> order) != slabs.end();
    });
  }
  return send(std::move(extents));
}

bool Keeper::send(std::vector<Extent> extents) {
  if (extents.empty()) return true;
  sending_ = std::move(extents);
  const auto start = Clock::now();
  auto done = member_.gate_.link()->give_back(sending_);
  if (!done) {
    const Errc code = done.error().code;
    if (code != Errc::denied && code != Errc::invalid) return failed(done.error());
    // A mistake of ours, or the node's: these frames stay where they are until the session ends.
    tell(fmt::format("refused {} returned extents: {}", sending_.size(), done.error().message));
    remember(done.error().message);
  } else {
    heard(Clock::now() - start);
    for (const Extent& extent : sending_) slabs_.returned(extent);
  }
  sending_.clear();
  return true;
}

}  // namespace comex

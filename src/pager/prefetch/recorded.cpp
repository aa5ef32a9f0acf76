#include "pager/prefetch/recorded.h"

#include <algorithm>

namespace comex {

Plan Recorded::plan(History& history, const Miss& miss) const noexcept {
  using From = Miss::From;
  if (sequence_.empty() || miss.from == From::zeros) return automatic_.plan(history, miss);
  Replay& replay = history.replay;
  const bool looks = replay.pause == 0;
  const bool found = looks && replay.follower.go_to(anchors_.key_of(miss.page), sequence_);
  Miss left = miss;
  if (found && miss.from == From::buffer) {
    ++replay.used;
    left.from = From::staging;  // it came for the sequence: that says nothing of trends and neighbours
  }
  Plan plan = automatic_.plan(history, left);
  const bool scans = plan.mapped && plan.after > 0;
  plan.known = found;
  plan.unknown = !found && !scans;
  if (!looks) {
    --replay.pause;
  } else if (!scans) {
    judge_place(replay, found);
  }
  if (!found) return plan;
  if (!scans) plan.after = plan.before = 0;
  list(replay, plan);
  return plan;
}

void Recorded::brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept {
  if (!brought.listed) return automatic_.brought(history, miss, plan, brought);
  Replay& replay = history.replay;
  replay.asked = plan.listed_at + plan.listed;
  replay.brought += brought.pages;
  if (replay.brought < kJudged) return;
  // Some have come only now, and are not used yet.
  judge(replay, replay.used * std::max(miss.one_in, kWorth) >= replay.brought);
  replay.brought = replay.used = 0;
}

std::optional<PageNo> Recorded::listed(std::uint32_t place) const noexcept {
  const PageKey* const page = sequence_.at(place);
  return page != nullptr ? std::optional(anchors_.page_of(*page)) : std::nullopt;
}

void Recorded::list(const Replay& replay, Plan& plan) const noexcept {
  const std::uint64_t at = replay.follower.at();
  const bool goes_on = replay.asked > at && replay.asked <= at + kAhead + Plan::kListed;
  const std::uint64_t from = goes_on ? replay.asked : at + 1;
  if (from - at > kAhead) return;
  plan.listed_at = static_cast<std::uint32_t>(from);
  while (plan.listed < Plan::kListed && sequence_.at(from + plan.listed) != nullptr) ++plan.listed;
}

void Recorded::judge_place(Replay& replay, bool found) noexcept {
  replay.found += found;
  if (++replay.looked < kJudged) return;
  judge(replay, replay.found * kOneIn >= replay.looked);
  replay.looked = replay.found = 0;
}

void Recorded::judge(Replay& replay, bool useful) noexcept {
  if (useful) {
    replay.last_pause = 0;
    return;
  }
  replay.pause = replay.last_pause = std::clamp(2 * replay.last_pause, kPause, kLongest);
}

}  // namespace comex

#include "pager/prefetch/automatic.h"

#include <algorithm>

namespace comex {
namespace {

// A trend that goes on is better than all of a region: what it brings is nearly certain.
bool is_sure(const Plan& plan) noexcept {
  constexpr std::uint32_t kSure = 8;
  return plan.after >= kSure;
}

Plan all_of_region(const History& history, PageNo page, std::uint32_t used) noexcept {
  Plan plan;
  plan.used = used;
  plan.stream = history.find(page);
  plan.before = static_cast<std::uint32_t>(page.value % Footprints::kPages);
  plan.after = Footprints::kPages - 1 - plan.before;
  plan.whole = true;
  return plan;
}

// If this is a scan, it goes on where the region ends, and that is no leap.
void go_on_after(History& history, const Miss& miss, const Plan& plan, const Brought& brought) noexcept {
  if (plan.stream >= history.streams.size()) return;
  FaultStream& stream = history.streams[plan.stream];
  if (stream.last == miss.page) stream.step = plan.step;
  cover(history, miss, plan, brought);
}

// Of the pages of a region, how many must be used for all to be worth it. Those that are brought in vain drive out
// others besides, whatever their reads cost.
std::uint32_t enough(const Miss& miss) noexcept {
  return std::max(Footprints::kPages / 4, Footprints::kPages / std::max(miss.one_in, 1U));
}

}  // namespace

Plan Automatic::plan(History& history, const Miss& miss) const noexcept {
  if (!may_look_away(miss)) return look(history, miss);
  if (history.attention.is_away(miss.page)) return {};
  const Plan plan = look(history, miss);
  // A pause is counted in faults, and is for what finds too much.
  history.attention.found(plan.finds_anything() || history.trends.pause > 0);
  return plan;
}

Plan Automatic::look(History& history, const Miss& miss) const noexcept {
  using From = Miss::From;
  Trends& trends = history.trends;
  // In any case: it learns from every fault that is looked at.
  Plan plan = trends_.look(history, miss);
  trends.used += plan.used;
  const bool follows = plan.mapped && plan.before == 0 && plan.after > 0;
  if (miss.from == From::buffer) {
    if (trends.measuring) {
      ++trends.used;
    } else if (!follows) {
      ++history.used;
    }
  }
  const bool whole = miss.from != From::zeros && history.footprints.touch(miss.page, enough(miss));
  if (whole && miss.from == From::node && !(follows && is_sure(plan)))
    return all_of_region(history, miss.page, plan.used);
  if (follows && trends.pause == 0) {
    plan.mapped = !trends.measuring;
    return plan;
  }
  if (trends.pause > 0) --trends.pause;
  plan.after = plan.before = plan.ahead = 0;
  plan.mapped = true;
  if (miss.from == From::node && miss.far) neighbours_.add_to(plan, history, miss);
  return plan;
}

void Automatic::brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept {
  if (plan.whole) return go_on_after(history, miss, plan, brought);
  if (plan.stream == History::kNone) return neighbours_.judge(history, brought.pages, miss.one_in);
  trends_.brought(history, miss, plan, brought);
  history.footprints.follow({miss.page, miss.offset, plan.step}, plan.after);
  Trends& trends = history.trends;
  trends.brought += brought.pages;
  if (trends.brought < kJudged) return;
  judge(trends, trends.used * miss.one_in >= trends.brought);
  trends.brought = trends.used = 0;
}

void Automatic::judge(Trends& trends, bool useful) noexcept {
  if (useful) {
    if (trends.measuring) trends.trusted = kTrusted;
    trends.measuring = false;
    trends.last_pause = 0;
  } else if (trends.measuring) {
    trends.measuring = false;
    trends.pause = trends.last_pause = std::clamp(2 * trends.last_pause, kPause, kLongest);
  } else if (trends.trusted > 0) {
    --trends.trusted;
  } else {
    trends.measuring = true;
  }
}

}  // namespace comex

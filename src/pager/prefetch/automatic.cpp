#include "pager/prefetch/automatic.h"

#include <algorithm>

namespace comex {

Plan Automatic::plan(History& history, const Miss& miss) const noexcept {
  Trends& trends = history.trends;
  // In any case: it learns from every fault.
  Plan plan = trends_.plan(history, miss);
  trends.used += plan.used;
  const bool follows = plan.mapped && plan.before == 0 && plan.after > 0;
  if (miss.from == Miss::From::buffer) {
    if (trends.measuring) {
      ++trends.used;
    } else if (!follows) {
      ++history.used;
    }
  }
  if (follows && trends.pause == 0) {
    plan.mapped = !trends.measuring;
    return plan;
  }
  if (trends.pause > 0) --trends.pause;
  plan.after = plan.before = plan.ahead = 0;
  plan.mapped = true;
  if (miss.from == Miss::From::node && miss.far) neighbours_.add_to(plan, history, miss);
  return plan;
}

void Automatic::brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept {
  if (plan.stream == History::kNone) return neighbours_.judge(history, brought.pages, miss.one_in);
  trends_.brought(history, miss, plan, brought);
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

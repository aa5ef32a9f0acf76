#include "pager/prefetch/next.h"

#include <algorithm>

namespace comex {

Plan NextPages::plan(History& history, const Miss& miss) const noexcept {
  Plan plan;
  FaultStream& scan = history.streams.front();
  const bool follows = scan.step.pages != 0 && miss.page == scan.expected();
  if (miss.from == Miss::From::staging && !follows) return plan;
  if (miss.from == Miss::From::buffer && !follows) ++history.used;
  plan.stream = 0;
  if (follows) plan.used = scan.brought;
  scan.step = {1};
  scan.move_to(miss.page);
  if (miss.from == Miss::From::staging) return plan;
  const std::uint32_t window = follows ? std::max(config_.first, 2U * scan.window) : 0;
  scan.window = static_cast<std::uint16_t>(std::min(config_.most, window));
  plan.after = scan.window;
  if (miss.far) plan.read_ahead();
  if (plan.after > 0 || miss.from != Miss::From::node || !miss.far) return plan;
  config_.neighbours.add_to(plan, history, miss);
  return plan;
}

void NextPages::brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept {
  cover(history, miss, plan, brought);
  if (!plan.mapped) config_.neighbours.judge(history, brought.pages, miss.one_in);
}

}  // namespace comex

#include "pager/prefetch/stride.h"

#include <algorithm>

namespace comex {

Plan Strides::plan(History& history, const Miss& miss) const noexcept {
  Plan plan;
  plan.stream = history.join(miss.page);
  if (plan.stream == History::kNone) return plan;
  FaultStream& stream = history.streams[plan.stream];
  const std::uint32_t steps = stream.steps_to(miss.page);
  plan.used = stream.used(steps);
  if (steps == 0) {
    stream.step = {stream.delta_to(miss.page)};
    stream.window = 0;
  } else if (miss.from != Miss::From::staging) {
    stream.window = static_cast<std::uint16_t>(std::min(config_.most, std::max(config_.first, 2U * stream.window)));
    plan.after = stream.window;
    if (miss.far) plan.read_ahead();
  }
  stream.move_to(miss.page);
  plan.step = stream.step;
  return plan;
}

}  // namespace comex

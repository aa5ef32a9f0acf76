#include "pager/prefetch/next.h"

#include <algorithm>

namespace comex {

Plan NextPages::plan(History& history, const Miss& miss) const noexcept {
  Plan plan;
  FaultStream& scan = history.streams.front();
  const bool follows = scan.step != 0 && miss.page == scan.expected();
  if (miss.from == Miss::From::staging && !follows) return plan;
  if (miss.from == Miss::From::buffer && !follows) ++history.used;
  plan.stream = 0;
  if (follows) plan.used = scan.brought;
  scan.step = 1;
  scan.move_to(miss.page);
  if (miss.from == Miss::From::staging) return plan;
  const std::uint32_t window = follows ? std::max(config_.first, 2U * scan.window) : 0;
  scan.window = static_cast<std::uint16_t>(std::min(config_.most, window));
  plan.after = scan.window;
  if (miss.far) plan.read_ahead();
  if (plan.after > 0 || miss.from != Miss::From::node || !miss.far) return plan;
  // A group of neighbours begins at a multiple of its size, and so is in one block, and mostly in one run of frames.
  const std::uint32_t size = around(history);
  plan.before = static_cast<std::uint32_t>(miss.page.value % size);
  plan.after = size - 1 - plan.before;
  plan.mapped = false;
  return plan;
}

void NextPages::brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept {
  cover(history, miss, plan, brought);
  if (!brought.mapped && !plan.mapped) judge(history, brought.pages);
}

std::uint32_t NextPages::around(History& history) const noexcept {
  if (history.group > 1) return history.group;
  return ++history.misses % config_.probe == 0 ? config_.fewest_around : 1;
}

void NextPages::judge(History& history, std::uint32_t pages) const noexcept {
  history.brought += pages;
  if (history.brought < config_.judged) return;
  const std::uint32_t useful = history.used * config_.useful;
  if (useful >= history.brought) {
    history.group = std::min(config_.most_around, std::max(config_.fewest_around, 2 * history.group));
  } else if (2 * useful < history.brought) {
    history.group = history.group > config_.fewest_around ? history.group / 2 : 0;
  }
  history.brought = history.used = 0;
}

}  // namespace comex

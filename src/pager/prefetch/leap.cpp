#include "pager/prefetch/leap.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace comex {

Plan Leap::plan(History& history, const Miss& miss) const noexcept {
  if (!may_look_away(miss)) return look(history, miss);
  if (history.attention.is_away(miss.page)) return {};
  const Plan plan = look(history, miss);
  history.attention.found(plan.finds_anything());
  return plan;
}

Plan Leap::look(History& history, const Miss& miss) const noexcept {
  using From = Miss::From;
  Plan plan;
  plan.stream = history.join(miss.page, miss.offset);
  if (plan.stream == History::kNone) return plan;
  FaultStream& stream = history.streams[plan.stream];
  const std::uint32_t steps = stream.steps_to(miss.page);
  plan.used = stream.used(steps);
  stream.deltas.push(steps > 0 ? static_cast<std::int32_t>(stream.step.pages) : stream.delta_to(miss.page));
  stream.byte_deltas.push(stream.byte_delta_to(miss.page, miss.offset, steps));
  stream.hits = static_cast<std::uint16_t>(stream.hits + plan.used + (miss.from == From::buffer));
  stream.move_to(miss.page, miss.offset);
  // Pages that are just leaving, or are here already, are no reason to read others, unless all goes on as expected.
  if (miss.from == From::staging) return plan;
  const Step trend = trend_of(stream);
  const bool found = trend.pages != 0;
  if (miss.from == From::buffer && (!found || steps == 0)) return plan;
  if (found) stream.step = trend;
  const std::uint32_t size = window_of(stream);
  stream.window = static_cast<std::uint16_t>(size);
  stream.hits = 0;
  if (size == 0 || stream.step.pages == 0) return plan;
  plan.step = stream.step;
  if (found) {
    plan.after = size;
    if (miss.far) plan.read_ahead();
  } else if (miss.from == From::node) {
    plan.before = size / 2;
    plan.after = size - plan.before;
    plan.mapped = !miss.far;
  }
  return plan;
}

void Leap::brought(History& history, const Miss& miss, const Plan& plan, const Brought& brought) const noexcept {
  cover(history, miss, plan, brought);
  if (plan.stream >= history.streams.size()) return;
  FaultStream& stream = history.streams[plan.stream];
  stream.hits = static_cast<std::uint16_t>(stream.hits + brought.from_buffer);
}

Step Leap::trend_of(const FaultStream& stream) const noexcept {
  // While nothing comes along, a trend begins with two equal deltas: at random there are none, and nothing is counted.
  const bool by_byte = stream.byte_deltas.repeats();
  if (stream.window == 0 && !by_byte && !stream.deltas.repeats()) return {};
  const std::int64_t bytes = find_trend(stream.byte_deltas, config_.history, config_.split);
  if (std::abs(bytes) >= static_cast<std::int64_t>(kPageSize)) return Step::of(bytes);
  return {find_trend(stream.deltas, config_.history, config_.split)};
}

std::uint32_t Leap::window_of(const FaultStream& stream) const noexcept {
  const bool follows = stream.step.pages != 0 && (stream.deltas.back(0) == stream.step.pages ||
                                                  stream.byte_deltas.back(0) == stream.step.in_bytes());
  const std::uint32_t wanted = stream.hits > 0 ? std::bit_ceil(stream.hits + 1U) : follows ? 1U : 0U;
  return std::max(std::min(wanted, config_.most), stream.window / 2U);
}

}  // namespace comex

#include "pool/refill.h"

#include <algorithm>
#include <cmath>

namespace comex {

double expected_rtt_us(const RefillModel& model) {
  const double others = model.clients > 1 ? model.clients - 1.0 : 0.0;
  const double nodes = std::max(1U, model.nodes);
  return model.network_us + model.service_us + model.service_us * others / nodes * model.probability;
}

double frames_per_round_trip(const RefillModel& model) {
  return model.pages_per_us * expected_rtt_us(model);
}

std::uint32_t refill_threshold(const RefillModel& model, const RefillConfig& config) {
  const double frames = std::ceil(frames_per_round_trip(model));
  const double low = config.min_threshold;
  const double share = config.max_share * model.free_frames;
  const double high = std::max(low, std::min<double>(config.max_threshold, share));
  // Not std::clamp alone: a NaN from a clock gone mad must end up as the smallest, not as undefined behaviour.
  if (!(frames > low)) return config.min_threshold;
  return static_cast<std::uint32_t>(std::min(frames, high));
}

std::uint32_t frames_to_ask(std::uint32_t threshold, std::uint32_t at_hand, const RefillConfig& config) {
  if (at_hand >= threshold) return 0;
  constexpr std::uint32_t kExtent = 1U << kUsualMinOrder;
  const std::uint32_t missing = std::min(2 * threshold - at_hand, config.max_ask);
  return (missing + kExtent - 1) / kExtent * kExtent;
}

void RateMeter::add(std::uint32_t frames) noexcept {
  const std::uint64_t before = taken_.fetch_add(frames, std::memory_order_relaxed);
  const std::uint64_t windows = (before + frames) / kWindow - before / kWindow;
  if (windows == 0) return;
  const std::int64_t now = Clock::now().time_since_epoch().count();
  const std::int64_t began = window_began_ns_.exchange(now, std::memory_order_relaxed);
  if (began == 0 || now <= began) return;
  const double rate = static_cast<double>(windows * kWindow) * 1e3 / static_cast<double>(now - began);
  double peak = peak_.load(std::memory_order_relaxed);
  while (rate > peak && !peak_.compare_exchange_weak(peak, rate, std::memory_order_relaxed)) {
  }
}

void RateMeter::decay(Nanos elapsed, Millis half_life) noexcept {
  const double halvings = static_cast<double>(elapsed.count()) / static_cast<double>(Nanos(half_life).count());
  const double factor = std::exp2(-halvings);
  double peak = peak_.load(std::memory_order_relaxed);
  while (!peak_.compare_exchange_weak(peak, peak * factor, std::memory_order_relaxed)) {
  }
}

void RefillEstimator::saw_round_trip(Nanos took) {
  const double us = static_cast<double>(took.count()) / 1e3;
  round_trip_us_ = round_trip_us_ == 0 ? us : round_trip_us_ + config_.round_trip_weight * (us - round_trip_us_);
}

Nanos RefillEstimator::round_trip() const {
  return Nanos(static_cast<std::int64_t>(round_trip_us_ * 1e3));
}

RefillModel RefillEstimator::model(double pages_per_us, unsigned nodes) const {
  RefillModel model;
  model.pages_per_us = pages_per_us;
  model.service_us = load_.service_ns / 1e3;
  model.network_us = std::max(0.0, round_trip_us_ - model.service_us);
  model.clients = std::max(1U, load_.clients);
  model.nodes = nodes;
  model.probability = config_.probability;
  model.free_frames = load_.free_frames;
  return model;
}

}  // namespace comex

// When to ask a node for more frames, and for how many.
//
// A list of free extents is refilled before it runs dry: below the threshold T, which is what the program can consume
// while a request is on its way. That is equation (1) of the COMEX paper:
//
//   T = consumption * RTT,   RTT = T_nw + T_s + T_q,   T_q = T_s * (N - 1) / M * P
//
// T_nw: network; T_s: the node's time to serve one request; T_q: waiting behind the requests of the N - 1 other
// clients, each of which asks one of M nodes at a time with probability P. On the paper's machines this gives 752.
//
// Here the inputs are measured. The round trip that a client sees contains T_s and some waiting already; all of it but
// T_s is taken for T_nw and T_q is added on top, so that T errs on the large side by at most the waiting that was seen.
//
// Thread safety: the functions are pure. RateMeter::add may run on any number of threads; RefillEstimator belongs to
// one thread.
// Fault path: RateMeter::add.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "wire/message.h"

namespace comex {

struct RefillConfig {
  std::uint32_t min_threshold = 1024;   // frames: where the design starts; 4 MiB for a client is little
  std::uint32_t max_threshold = 16384;  // frames: beyond this the paper sees programs slow down (hoarding)
  // of what the node has left: a fast program must not empty a small node into its list. Not below min_threshold
  double max_share = 1.0 / 16;
  // frames in one request: a node clears what it grants, so a larger one makes the first frames wait for the last
  std::uint32_t max_ask = 2048;
  double probability = 1.0;          // P: assume that everybody asks at once, as the paper does
  double round_trip_weight = 0.125;  // of a new round trip against the old ones, as TCP does
  Millis peak_half_life{10'000};     // a burst of consumption is remembered about as long as a phase of a program
};

struct RefillModel {
  double pages_per_us = 0;                 // peak consumption
  double network_us = 0;                   // T_nw
  double service_us = 0;                   // T_s
  unsigned clients = 1;                    // N
  unsigned nodes = 1;                      // M
  double probability = 1;                  // P
  std::uint32_t free_frames = UINT32_MAX;  // what the node has left
};

double expected_rtt_us(const RefillModel& model);
// Equation (1), in frames, before it is kept within limits.
double frames_per_round_trip(const RefillModel& model);
// T.
std::uint32_t refill_threshold(const RefillModel& model, const RefillConfig& config);
// How many frames to ask for: none at or above the threshold, else up to twice the threshold, so that the next request
// is a full threshold away; in whole extents of the usual smallest size, and at most max_ask at a time.
std::uint32_t frames_to_ask(std::uint32_t threshold, std::uint32_t at_hand, const RefillConfig& config);

// The peak rate at which frames are taken. It looks at the clock once per kWindow frames, so that a long idle stretch
// between two bursts does not dilute the burst.
class RateMeter {
 public:
  void add(std::uint32_t frames) noexcept;
  // Frames per microsecond, in the fastest window lately.
  [[nodiscard]] double peak_per_us() const noexcept { return peak_.load(std::memory_order_relaxed); }
  // Forgets: halves the peak for every `half_life` gone by.
  void decay(Nanos elapsed, Millis half_life) noexcept;

 private:
  static constexpr std::uint64_t kWindow = 256;  // frames: 4 batches of staging
  // Measurements, not synchronisation: relaxed throughout. A race costs one sample.
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::int64_t> window_began_ns_{0};
  std::atomic<double> peak_{0};
};

// Follows what one node is like and says what T follows from it.
class RefillEstimator {
 public:
  explicit RefillEstimator(const RefillConfig& config) : config_(config) {}

  void saw_round_trip(Nanos took);
  void saw_load(const wire::NodeLoad& load) { load_ = load; }
  [[nodiscard]] Nanos round_trip() const;
  [[nodiscard]] RefillModel model(double pages_per_us, unsigned nodes) const;

 private:
  RefillConfig config_;
  wire::NodeLoad load_;
  double round_trip_us_ = 0;  // 0: none seen yet
};

}  // namespace comex

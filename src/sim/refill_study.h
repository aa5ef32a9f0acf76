// Is T large enough? Clients take frames in bursts and ask their node for more when fewer than T are at hand; nodes
// serve one request after the other. Every client decides as the pool does (pool/placement.h, pool/refill.h); time and
// links are simulated, in microseconds. A program that finds nothing at hand stands still until the node has answered:
// how long, with T as given, and with what equation (1) makes of the round trips and service times that a client sees.
#pragma once

#include <cstdint>
#include <vector>

#include "pool/refill.h"

namespace comex::sim {

struct RefillStudy {
  std::uint32_t nodes = 1000;
  std::uint32_t clients = 10'000;
  double seconds = 1;
  double network_us = 30;             // there and back, the mean; each trip is exponential beyond half of it
  double service_us = 10;             // of a request,
  double service_us_per_frame = 0.6;  // ... and of each frame, which is cleared: some 10 ms for 64 MiB
  double peak_pages_per_us = 0.5;     // a program that does nothing but evict; each has its own rate up to this
  double burst_us = 50'000;           // means
  double pause_us = 100'000;
  std::uint64_t seed = 1;
};

struct RefillResult {
  std::uint32_t threshold = 0;  // as given; 0: by equation (1)
  double mean_threshold = 0;
  double mean_at_hand = 0;   // frames that lie idle with each client, in the mean over time
  double stood_still = 0;    // of the time in bursts, the share without a frame at hand
  double worst_client = 0;   // the same of the client that it was worst for
  double round_trip_us = 0;  // of a request, the mean
  double expected_us = 0;    // ... that equation (1) expects, the mean
  std::uint64_t requests = 0;
  std::uint64_t frames = 0;
};

// With T fixed, or 0: by equation (1), as clients measure it.
RefillResult simulate_refill(const RefillStudy& study, std::uint32_t threshold);

}  // namespace comex::sim

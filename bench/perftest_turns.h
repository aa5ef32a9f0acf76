// The turns of perftest in the rounds of `comex bench pool`: right after comex over RDMA has had its own, and about as
// long. A program of it that fails is named among what was skipped, and not tried again: comex's figures stay good.
#pragma once

#include <set>
#include <string_view>

#include "bench/figures.h"
#include "bench/peers/perftest.h"

namespace comex::bench {

// Not thread-safe.
class PerftestTurns {
 public:
  PerftestTurns(Perftest& perftest, Figures& figures, Clock::duration latency_slice, Clock::duration throughput_slice)
      : perftest_(perftest), figures_(figures), latency_slice_(latency_slice), throughput_slice_(throughput_slice) {}

  static constexpr std::size_t kInRound = 4;  // reads of two sizes, and batches each way
  // Of what it has: reads one at a time (its writes are measured one way, comex's there and back), and of batches what
  // one thread does.
  static bool measures(const Latency& what) { return what.direction == Direction::read; }
  static bool measures(unsigned threads) { return threads == 1; }

  // `comex`: what comex took, or moved in a second, a moment ago. An error only if the user wants no more.
  Expected<void> latency(const Latency& what, const Summary& comex);
  Expected<void> throughput(Direction direction, double comex);

 private:
  Expected<void> give_up(std::string_view program, const Error& why);

  Perftest& perftest_;
  Figures& figures_;
  Clock::duration latency_slice_;
  Clock::duration throughput_slice_;
  std::set<std::string_view> given_up_;
};

// --- how much it measures ---
// As many operations as fit into a slice if each takes as long: enough for a figure, and not for ever.
unsigned operations_for(Clock::duration slice, double each_us, unsigned fewest);

}  // namespace comex::bench

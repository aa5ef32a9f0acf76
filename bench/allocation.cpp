#include "bench/allocation.h"

#include <unistd.h>

#include "bench/interrupt.h"
#include "bench/peers/peer.h"
#include "pool/pool.h"

namespace comex::bench {

namespace {

constexpr Millis kTime{800};            // for each of the two figures
constexpr Millis kRefillWithin{5'000};  // for one refill
constexpr std::uint32_t kBurst = 1024;  // frames: what a pool keeps at hand at the least

// Takes what is at hand in runs of up to `want`, bursts of kBurst frames at a time, and gives it back in between. Only
// the taking is timed; that the refill is woken by it is part of the price.
Expected<double> frames_per_second(Pool& pool, std::uint32_t want) {
  std::vector<double> rates;
  std::vector<Run> runs;
  runs.reserve(kBurst);
  for (const Deadline end(kTime); !end.passed() && !interrupted();) {
    if (const Errc ready = pool.wait_for_frames(kBurst, Deadline(kRefillWithin)); ready != Errc::ok) {
      return Error{ready, "the pool did not come up with frames"};
    }
    std::uint32_t frames = 0;
    const Clock::time_point begin = Clock::now();
    while (frames < kBurst) {
      const std::optional<Run> run = pool.take(want);
      if (!run) break;
      runs.push_back(*run);
      frames += run->count;
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (frames > 0) rates.push_back(frames / seconds);
    for (const Run& run : runs) pool.give_back(run);
    runs.clear();
  }
  if (interrupted()) return interruption();
  return median(std::move(rates));
}

}  // namespace

Expected<Allocation> measure_allocation(const std::vector<Url>& nodes, const LinkOptions& link) {
  PoolConfig config;
  config.nodes = nodes;
  config.link = link;
  Expected<std::unique_ptr<Pool>> pool = Pool::open(std::move(config));
  if (!pool) return pool.error();
  const Expected<double> single = frames_per_second(**pool, 1);
  if (!single) return single.error();
  const Expected<double> in_runs = frames_per_second(**pool, kBatchPages);
  if (!in_runs) return in_runs.error();
  return Allocation{*single, *in_runs};
}

}  // namespace comex::bench

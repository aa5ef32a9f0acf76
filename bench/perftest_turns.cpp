#include "bench/perftest_turns.h"

#include <algorithm>

#include "bench/interrupt.h"

namespace comex::bench {

namespace {

constexpr unsigned kFewestReads = 200;  // of which the 99th percentile says something
constexpr unsigned kFewestBatches = 8 * kBatchesInFlight;
constexpr unsigned kMostOperations = 100'000;

}  // namespace

unsigned operations_for(Clock::duration slice, double each_us, unsigned fewest) {
  const double slice_us = std::chrono::duration<double, std::micro>(slice).count();
  const double fit = each_us > 0 ? slice_us / each_us : 0;
  return static_cast<unsigned>(std::clamp<double>(fit, fewest, kMostOperations));
}

Expected<void> PerftestTurns::latency(const Latency& what, const Summary& comex) {
  constexpr std::string_view kProgram = "ib_read_lat";
  if (given_up_.contains(kProgram)) return {};
  const auto found = perftest_.read_latency(what.pages, operations_for(latency_slice_, comex.p50, kFewestReads));
  if (!found) return give_up(kProgram, found.error());
  figures_.add(kPerftest, what, *found);
  return {};
}

Expected<void> PerftestTurns::throughput(Direction direction, double comex) {
  const std::string_view program = direction == Direction::read ? "ib_read_bw" : "ib_write_bw";
  if (given_up_.contains(program)) return {};
  const double batch_us = comex > 0 ? kBatchPages * static_cast<double>(kPageSize) / comex * 1e6 : 0;
  const auto found = perftest_.throughput(direction, operations_for(throughput_slice_, batch_us, kFewestBatches));
  if (!found) return give_up(program, found.error());
  figures_.add(kPerftest, direction, 1, *found);
  return {};
}

Expected<void> PerftestTurns::give_up(std::string_view program, const Error& why) {
  if (interrupted()) return interruption();
  given_up_.insert(program);
  figures_.skipped.push_back({std::string(program), why.message});
  return {};
}

}  // namespace comex::bench

#include "bench/chaos/storm.h"

#include "bench/measure.h"

namespace comex::bench {

std::string_view to_string(Mishap mishap) {
  switch (mishap) {
    case Mishap::kill_node: return "a node is killed";
    case Mishap::stop_node: return "a node is stopped";
    case Mishap::pull_wire: return "a wire is pulled";
    case Mishap::jolt_wire: return "a wire is jolted";
    case Mishap::slow_node: return "a wire is slow";
    case Mishap::fill_node: return "a node is filled";
    case Mishap::drain_node: return "a node is drained";
    case Mishap::kill_program: return "a program is killed";
  }
  return "?";
}

std::vector<Fault> draw_storm(std::uint64_t seed, unsigned faults, unsigned nodes, unsigned programs, Millis longest) {
  Random random(seed);
  const auto draw = [&](std::size_t below) { return random.below(static_cast<std::uint32_t>(below)); };
  std::vector<Fault> storm;
  for (unsigned i = 0; i < faults; ++i) {
    Fault fault;
    // Each kind once before any comes again: a short storm has them all.
    fault.what = kMishaps[i < kMishaps.size() ? (i + seed) % kMishaps.size() : draw(kMishaps.size())];
    fault.node = 1 + draw(nodes);
    fault.program = draw(programs);
    const bool jolt = fault.what == Mishap::jolt_wire;
    const auto least = jolt ? Millis(20) : longest / 4;
    const auto most = jolt ? Millis(300) : longest;
    fault.lasts = least + Millis(draw(static_cast<std::size_t>((most - least).count()) + 1));
    fault.after = Millis(100 + draw(900));
    storm.push_back(fault);
  }
  return storm;
}

}  // namespace comex::bench

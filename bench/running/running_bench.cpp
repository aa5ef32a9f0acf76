#include "bench/running/running_bench.h"

#include <fmt/format.h>

#include "bench/child.h"
#include "bench/host_load.h"
#include "bench/interrupt.h"
#include "bench/running/workload.h"

namespace comex::bench {

namespace {

// In every mode, one after the other. A turn in which one of them fails counts for none.
Expected<std::array<double, kModes.size()>> measure_all(Workload& workload) {
  std::array<double, kModes.size()> found{};
  for (const Mode mode : kModes) {
    Expected<double> figure = workload.measure(mode);
    if (interrupted()) return interruption();
    if (!figure) return Error{figure.error().code, fmt::format("{}: {}", to_string(mode), figure.error().message)};
    found[static_cast<std::size_t>(mode)] = *figure;
  }
  return found;
}

Expected<void> take_turns(Workload& workload, RunningSeries& series) {
  for (unsigned turn = 0; turn < workload.turns(); ++turn) {
    const auto found = measure_all(workload);
    if (!found) return found.error();
    for (const Mode mode : kModes) series.rounds[mode].push_back((*found)[static_cast<std::size_t>(mode)]);
  }
  return {};
}

}  // namespace

Expected<RunningFigures> bench_running(const RunningOptions& options, Steps& steps) {
  RunningFigures figures;
  const Expected<TempFolder> folder = TempFolder::create();
  if (!folder) return folder.error();
  steps.stage("looking whether the machine is idle");
  figures.load_before = host_load(kLookAtLoad);
  auto workloads = make_workloads(folder->path(), figures.skipped);
  steps.expect(workloads.size() * options.rounds);
  for (const auto& workload : workloads) {
    figures.series.push_back({std::string(workload->name()), std::string(workload->unit()), {}});
  }
  for (unsigned round = 1; round <= options.rounds; ++round) {
    steps.stage(fmt::format("round {} of {}", round, options.rounds));
    figures.rounds = round;
    for (std::size_t i = 0; i < workloads.size(); ++i) {
      if (workloads[i] == nullptr) continue;
      steps.step(fmt::format("round {} of {}: {}", round, options.rounds, workloads[i]->name()));
      const Expected<void> measured = take_turns(*workloads[i], figures.series[i]);
      if (interrupted()) return interruption();
      if (measured) continue;
      figures.failed.push_back({figures.series[i].name, measured.error().message});
      workloads[i].reset();
    }
  }
  return figures;
}

}  // namespace comex::bench

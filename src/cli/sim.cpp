#include "cli/sim.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/report.h"
#include "sim/sim_report.h"

namespace comex {
namespace {

struct SimFlags {
  sim::ClusterStudy cluster;
  std::string plot;
  bool quick = false;
  bool json = false;
};

void say(const std::string& what) {
  fmt::print(stderr, "comex sim: {}\n", what);
}

Expected<void> check(const SimFlags& flags) {
  const sim::ClusterStudy& study = flags.cluster;
  if (study.copies > study.domains) {
    return Error{Errc::invalid, fmt::format("{} copies need as many --domains", study.copies)};
  }
  if (study.domains > study.nodes) return Error{Errc::invalid, "there are more --domains than --nodes"};
  return {};
}

sim::SimFigures simulate(const SimFlags& flags) {
  sim::SimFigures figures;
  figures.cluster_study = flags.cluster;
  sim::RefillStudy& refill = figures.refill_study;
  refill.nodes = flags.cluster.nodes;
  refill.clients = flags.cluster.clients;
  refill.seed = flags.cluster.seed;
  if (flags.quick) refill.seconds = 0.3;
  for (const std::uint32_t threshold : {64U, 256U, 1024U, 2048U, 4096U, 8192U, 16384U, 0U}) {
    say(threshold > 0 ? fmt::format("refill, T = {}", threshold) : "refill, T by equation (1)");
    figures.refill.push_back(sim::simulate_refill(refill, threshold));
  }
  say(fmt::format("{} days of {} nodes and {} programs", flags.cluster.days, flags.cluster.nodes,
                  flags.cluster.clients));
  figures.cluster = sim::simulate_cluster(flags.cluster);
  for (std::uint32_t copies = 1; copies <= sim::ClusterStudy::kMostCopies; ++copies) {
    if (copies > flags.cluster.domains) break;
    for (const double node_days : {30.0, 10.0, 3.0, 1.0}) {
      say(fmt::format("losses with {} cop{}, a node fails every {} days", copies, copies == 1 ? "y" : "ies",
                      node_days));
      sim::ClusterStudy study = flags.cluster;
      study.copies = copies;
      study.node_days = node_days;
      figures.losses.push_back({copies, node_days, sim::simulate_cluster(study)});
    }
  }
  for (const bool shm : {false, true}) {
    for (const bool compaction : {false, true}) {
      sim::ChurnStudy study;
      study.hours = flags.quick ? 0.5 : std::min(24.0, 24 * flags.cluster.days);
      study.shm = shm;
      study.compaction = compaction;
      study.seed = flags.cluster.seed;
      say(fmt::format("{:g} hours of one node with{} compaction", study.hours, compaction ? "" : "out"));
      figures.churn.push_back({study, sim::simulate_churn(study)});
    }
  }
  return figures;
}

Expected<void> run(SimFlags flags) {
  if (flags.quick) {
    flags.cluster.nodes = std::min(flags.cluster.nodes, 100U);
    flags.cluster.domains = std::min(flags.cluster.domains, 20U);
    flags.cluster.clients = std::min(flags.cluster.clients, 1000U);
    flags.cluster.days = std::min(flags.cluster.days, 0.5);
  }
  if (auto right = check(flags); !right) return right;
  const sim::SimFigures figures = simulate(flags);
  fmt::print("{}", flags.json ? to_json(figures) : to_text(figures));
  if (flags.plot.empty()) return {};
  return plot::write_drawings(draw(figures), flags.plot);
}

}  // namespace

void add_sim(CLI::App& app, int& exit_code) {
  CLI::App& command = *app.add_subcommand("sim", "Simulate a large cluster with the code that places pages");
  auto flags = std::make_shared<SimFlags>();
  sim::ClusterStudy& study = flags->cluster;
  command.add_option("--nodes", study.nodes, "Memory nodes (1000)")->check(CLI::Range(1, 20'000))->type_name("N");
  command.add_option("--domains", study.domains, "Failure domains that they are in (50)")
      ->check(CLI::Range(1, 20'000))
      ->type_name("N");
  command.add_option("--clients", study.clients, "Programs (10000)")->check(CLI::Range(1, 200'000))->type_name("N");
  command.add_option("--days", study.days, "How long (1)")->check(CLI::Range(0.01, 1000.0))->type_name("D");
  command.add_option("--copies", study.copies, "Copies of each page (2)")
      ->check(CLI::Range(1U, sim::ClusterStudy::kMostCopies))
      ->type_name("N");
  command.add_option("--use", study.use, "Share of the memory that programs want, with all copies (0.7)")
      ->check(CLI::Range(0.01, 1.5))
      ->type_name("SHARE");
  command.add_option("--node-days", study.node_days, "Between two failures of a node (30; 0: none fails)")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("D");
  command.add_option("--seed", study.seed, "Another seed, another run (1)")->type_name("N");
  command.add_option("--plot", flags->plot, "Write drawings there, as SVG")->type_name("FOLDER");
  command.add_flag("--quick", flags->quick, "A tenth of the cluster for half a day");
  command.add_flag("--json", flags->json, "Everything, for programs");
  command.callback([flags, &exit_code] {
    const auto done = run(*flags);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace comex

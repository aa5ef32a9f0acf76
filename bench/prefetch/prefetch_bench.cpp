#include "bench/prefetch/prefetch_bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/host_load.h"
#include "bench/interrupt.h"
#include "bench/paging/native_run.h"
#include "bench/prefetch/contestants.h"
#include "cli/config.h"
#include "pager/evict/choice.h"
#include "pager/prefetch/choice.h"

namespace comex::bench {

namespace {

const std::string kRecord(kPrefetchNames[static_cast<std::size_t>(Prefetch::record)]);

bool is_comex(std::string_view system) {
  return system == kPagingShm || system == kPagingTcp;
}

// Prefetchers are compared under the eviction policy that comex run takes by itself, and policies with its prefetcher.
std::vector<Contestant> list_contestants(const PrefetchFigures& figures, const std::vector<std::string>& systems) {
  std::vector<Contestant> all;
  for (const std::string& system : systems) {
    if (!is_comex(system)) {
      all.push_back({system, ""});
      continue;
    }
    for (const std::string& prefetch : figures.prefetchers) all.push_back({system, prefetch});
    for (const std::string& evict : figures.evictors) all.push_back({system, figures.usual, evict});
  }
  return all;
}

// Where the kernel's swap cannot be had at all, that is said once.
void prepare_swap(PrefetchGround& ground, PrefetchFigures& figures) {
  const auto by_kernel = [](const Contestant& who) { return !is_comex(who.system); };
  if (std::none_of(figures.contestants.begin(), figures.contestants.end(), by_kernel)) return;
  ground.host = SwapHost::prepare(ground.swap_folder);
  if (ground.host) return;
  std::erase_if(figures.contestants, by_kernel);
  figures.skipped.push_back({"the kernel's swap", ground.host.error().message});
}

class PrefetchRounds {
 public:
  PrefetchRounds(const PrefetchOptions& options, PrefetchGround& ground,
                 std::vector<std::unique_ptr<PagedProgram>> programs, PrefetchFigures& figures, Steps& steps)
      : options_(options), ground_(ground), programs_(std::move(programs)), figures_(figures), steps_(steps) {
    steps_.expect(programs_.size() * (1 + options.rounds * figures.contestants.size()));
  }

  Expected<void> run() {
    if (Expected<void> measured = run_natively(); !measured) return measured;
    if (Expected<void> started = start_nodes(); !started) return started;
    for (unsigned round = 1; round <= options_.rounds; ++round) {
      steps_.stage(fmt::format("round {} of {}", round, options_.rounds));
      figures_.rounds = round;
      for (std::size_t i = 0; i < programs_.size(); ++i) {
        for (const Contestant& who : figures_.contestants) {
          turn(i, who, round);
          if (interrupted()) return interruption();
        }
      }
    }
    return {};
  }

 private:
  // What it wants, how long it takes when it gets it, and what should come out. One that fails here is left out.
  Expected<void> run_natively() {
    NativeRun native(ground_.folder + "/native.log");
    std::vector<std::unique_ptr<PagedProgram>> whole;
    steps_.stage("running each program with all its memory");
    for (std::unique_ptr<PagedProgram>& program : programs_) {
      steps_.step(fmt::format("{}, {}", program->name(), native.name()));
      const Expected<PagedProgram::Outcome> outcome = program->run(native);
      if (interrupted()) return interruption();
      if (!outcome) {
        figures_.failed.push_back({std::string(program->name()), outcome.error().message});
        continue;
      }
      figures_.programs.push_back({std::string(program->name()), outcome->peak_bytes,
                                   share_of(outcome->peak_bytes, program->share()), outcome->seconds});
      results_.push_back(outcome->result);
      whole.push_back(std::move(program));
    }
    programs_ = std::move(whole);
    return {};
  }

  Expected<void> start_nodes() {
    std::uint64_t most = 0;
    for (const PrefetchProgram& program : figures_.programs) most = std::max(most, program.peak_bytes);
    steps_.stage("starting two memory nodes");
    Expected<OwnNodes> nodes = OwnNodes::start(ground_.folder, 2, room_for(most));
    if (!nodes) return nodes.error();
    ground_.nodes = *std::move(nodes);
    return {};
  }

  [[nodiscard]] Expected<Running> open(const PrefetchProgram& program, const Contestant& who) const {
    if (is_comex(who.system)) return comex_contestant(ground_, who, program.local_bytes, flags_of(program, who));
    return kernel_contestant(ground_, who.system, program.local_bytes, room_for(program.peak_bytes));
  }

  [[nodiscard]] std::vector<std::string> flags_of(const PrefetchProgram& program, const Contestant& who) const {
    if (who.prefetch != kRecord) return {};
    const char* const medium = who.system == kPagingShm ? "shm" : "tcp";
    return {"--profile", fmt::format("{}/{}-{}.profile", ground_.folder, program.name, medium)};
  }

  // The run before the first that is measured, which `record` learns from. What goes wrong here goes wrong again.
  void rehearse(std::size_t index, const Contestant& who) {
    Expected<Running> running = open(figures_.programs[index], who);
    if (running) (void)programs_[index]->run(*running->system);
  }

  void turn(std::size_t index, const Contestant& who, unsigned round) {
    const PrefetchProgram& program = figures_.programs[index];
    steps_.step(fmt::format("round {} of {}: {}, {}", round, options_.rounds, program.name, who.text()));
    if (round > 1 && (who.system == kPagingDisk || !figures_.at(program.name, who).rounds.contains(round - 1))) return;
    if (round == 1 && who.prefetch == kRecord) rehearse(index, who);
    ground_.nodes.settle();
    Expected<Running> running = open(program, who);
    if (!running) return fail(fmt::format("{}: {}", program.name, who.text()), running.error(), figures_.skipped);
    const Expected<PagedProgram::Outcome> outcome = programs_[index]->run(*running->system);
    const Expected<std::optional<RunCounts>> counts = counts_of(*running);
    Expected<void> right = judge(index, outcome, counts);
    if (!right) return fail(fmt::format("{}: {}", program.name, who.text()), right.error(), figures_.failed);
    PrefetchSeries& series = figures_.at(program.name, who);
    series.rounds[round] = outcome->seconds;
    if (!series.counts) series.counts = *counts;
  }

  [[nodiscard]] Expected<void> judge(std::size_t index, const Expected<PagedProgram::Outcome>& outcome,
                                     const Expected<std::optional<RunCounts>>& counts) const {
    if (!outcome) return outcome.error();
    if (outcome->result != results_[index]) return Error{Errc::io, "it did not find what it finds natively"};
    if (!counts) return counts.error();
    return {};
  }

  static void fail(std::string what, const Error& why, std::vector<Skipped>& list) {
    list.push_back({std::move(what), why.message});
  }

  const PrefetchOptions& options_;
  PrefetchGround& ground_;
  std::vector<std::unique_ptr<PagedProgram>> programs_;
  std::vector<std::string> results_;  // of each, natively
  PrefetchFigures& figures_;
  Steps& steps_;
};

}  // namespace

Expected<PrefetchFigures> bench_prefetch(const PrefetchOptions& options, Steps& steps) {
  PrefetchFigures figures;
  const Expected<TempFolder> folder = TempFolder::create();
  if (!folder) return folder.error();
  steps.stage("looking whether the machine is idle");
  figures.load_before = host_load(kLookAtLoad);
  figures.usual = kPrefetchNames[static_cast<std::size_t>(RunSettings{}.prefetch)];
  figures.prefetchers = options.prefetchers;
  if (figures.prefetchers.empty()) figures.prefetchers.assign(kPrefetchNames.begin(), kPrefetchNames.end());
  figures.usual_evict = kEvictNames[static_cast<std::size_t>(RunSettings{}.evict)];
  figures.evictors = options.evictors;
  if (figures.evictors.empty()) figures.evictors.assign(kEvictNames.begin(), kEvictNames.end());
  std::erase(figures.evictors, figures.usual_evict);
  figures.contestants = list_contestants(figures, options.systems);

  PrefetchGround ground;
  ground.folder = folder->path();
  ground.swap_folder = options.swap_folder;
  prepare_swap(ground, figures);
  auto programs = make_prefetch_programs(options.sizes, folder->path(), options.programs, figures.skipped);
  Expected<void> measured = PrefetchRounds(options, ground, std::move(programs), figures, steps).run();
  if (!measured) return measured.error();
  return figures;
}

}  // namespace comex::bench

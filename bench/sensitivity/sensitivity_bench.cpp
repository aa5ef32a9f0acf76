#include "bench/sensitivity/sensitivity_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/units.h"
#include "bench/host_load.h"
#include "bench/interrupt.h"
#include "bench/paging/native_run.h"
#include "bench/prefetch/contestants.h"
#include "cli/config.h"

namespace comex::bench {

namespace {

constexpr unsigned kAll = 100;  // per cent: nothing is paged

class SensitivityRun {
 public:
  SensitivityRun(const SensitivityOptions& options, PrefetchGround& ground,
                 std::vector<std::unique_ptr<PagedProgram>> programs, SensitivityFigures& figures, Steps& steps)
      : options_(options), ground_(ground), programs_(std::move(programs)), figures_(figures), steps_(steps) {
    std::size_t each = 1;
    for (const Sweep sweep : options.sweeps) each += values_of(sweep).size() * (sweep == Sweep::memory ? 4 : 1);
    steps_.expect(programs_.size() * each);
  }

  Expected<void> run() {
    if (Expected<void> measured = run_natively(); !measured) return measured;
    if (Expected<void> started = start_nodes(); !started) return started;
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      steps_.stage(fmt::format("{} ({} of {})", programs_[i]->name(), i + 1, programs_.size()));
      for (const Sweep sweep : options_.sweeps) {
        for (const unsigned value : values_of(sweep)) {
          if (sweep == Sweep::memory) {
            vary_memory(i, value);
          } else {
            vary_size(i, sweep, value);
          }
          if (interrupted()) return interruption();
        }
      }
    }
    return {};
  }

 private:
  [[nodiscard]] const std::vector<unsigned>& values_of(Sweep sweep) const {
    switch (sweep) {
      case Sweep::threshold: return options_.thresholds;
      case Sweep::prefetch: return options_.prefetches;
      case Sweep::buffer: return options_.buffers;
      case Sweep::memory: break;
    }
    return options_.shares;
  }

  static const char* flag_of(Sweep sweep) {
    switch (sweep) {
      case Sweep::threshold: return "--tune-stock";
      case Sweep::prefetch: return "--tune-prefetch";
      default: return "--tune-buffer";
    }
  }

  Expected<void> run_natively() {
    NativeRun native(ground_.folder + "/native.log");
    std::vector<std::unique_ptr<PagedProgram>> whole;
    steps_.stage("running each program with all its memory");
    for (std::unique_ptr<PagedProgram>& program : programs_) {
      steps_.step(fmt::format("{}, native", program->name()));
      const Expected<PagedProgram::Outcome> outcome = program->run(native);
      if (interrupted()) return interruption();
      if (!outcome) {
        figures_.failed.push_back({std::string(program->name()), outcome.error().message});
        continue;
      }
      figures_.programs.push_back({std::string(program->name()), outcome->peak_bytes, outcome->seconds});
      results_.push_back(outcome->result);
      whole.push_back(std::move(program));
    }
    programs_ = std::move(whole);
    return {};
  }

  Expected<void> start_nodes() {
    std::uint64_t most = 0;
    for (const SensitivityProgram& program : figures_.programs) most = std::max(most, program.peak_bytes);
    steps_.stage("starting two memory nodes");
    Expected<OwnNodes> nodes = OwnNodes::start(ground_.folder, 2, room_for(most));
    if (!nodes) return nodes.error();
    ground_.nodes = *std::move(nodes);
    return {};
  }

  void vary_size(std::size_t index, Sweep sweep, unsigned value) {
    const std::uint64_t local = share_of(figures_.programs[index].peak_bytes, options_.share);
    const Contestant who{std::string(kPagingTcp), figures_.prefetch};
    measure(index, sweep, value, comex_contestant(ground_, who, local, {flag_of(sweep), std::to_string(value)}));
  }

  // Of a small program several shares may be the same memory, which is measured once.
  void vary_memory(std::size_t index, unsigned wanted) {
    const SensitivityProgram& program = figures_.programs[index];
    const std::uint64_t local = share_of(program.peak_bytes, wanted);
    const unsigned share = percent_of(local, program.peak_bytes);
    if (!tried_.insert({index, share}).second) return;
    for (const std::string_view system : {kPagingShm, kPagingZram, kPagingTcp, kPagingDisk}) {
      if (interrupted()) return;
      const bool kernel = system == kPagingZram || system == kPagingDisk;
      if (failed(program.name, system) || (kernel && !ground_.host)) continue;
      if (const SensitivityPoint* const slow = too_slow(program.name, system)) {
        figures_.points.push_back({Sweep::memory, program.name, std::string(system), share, slow->seconds, {}, true});
        continue;
      }
      if (!kernel) {
        // With all its memory and what comex needs itself: it is watched, and nothing is paged.
        const std::uint64_t enough = share == kAll ? local + local / 4 : local;
        measure(index, Sweep::memory, share,
                comex_contestant(ground_, {std::string(system), figures_.prefetch}, enough));
      } else if (share == kAll) {
        // Nothing to swap: the kernel with all the memory is the program by itself.
        figures_.points.push_back(
            {Sweep::memory, program.name, std::string(system), share, program.native_seconds, {}, false});
      } else {
        measure(index, Sweep::memory, share, kernel_contestant(ground_, system, local, room_for(program.peak_bytes)));
      }
    }
  }

  // ... with more memory than it would have now.
  [[nodiscard]] bool failed(const std::string& program, std::string_view system) const {
    return std::any_of(figures_.failed.begin(), figures_.failed.end(), [&](const Skipped& each) {
      return each.what.starts_with(fmt::format("{}: {},", program, system));
    });
  }
  // The point at which it took too long, with more memory than it would have now.
  [[nodiscard]] const SensitivityPoint* too_slow(const std::string& program, std::string_view system) const {
    const auto found = std::find_if(figures_.points.begin(), figures_.points.end(), [&](const SensitivityPoint& point) {
      return point.sweep == Sweep::memory && point.program == program && point.system == system &&
             (point.at_least || point.seconds > options_.most_seconds);
    });
    return found == figures_.points.end() ? nullptr : &*found;
  }

  void measure(std::size_t index, Sweep sweep, unsigned value, Expected<Running> running) {
    const std::string& name = figures_.programs[index].name;
    figures_.interrupted = interrupted();
    if (figures_.interrupted) return;
    if (!running) {
      figures_.skipped.push_back({fmt::format("{}: {}", name, to_string(sweep)), running.error().message});
      return;
    }
    const std::string what = fmt::format("{}: {}, {} {}", name, running->who.system, to_string(sweep), value);
    steps_.step(what);
    running->system->set_limit(options_.limit);
    ground_.nodes.settle();
    const Expected<PagedProgram::Outcome> outcome = programs_[index]->run(*running->system);
    figures_.interrupted = interrupted();
    if (figures_.interrupted) return;
    const Expected<std::optional<RunCounts>> counts = counts_of(*running);
    if (!outcome && outcome.error().code == Errc::timeout) {
      figures_.skipped.push_back({what, fmt::format("it took longer than {}", format_duration(options_.limit))});
      const double seconds = std::chrono::duration<double>(options_.limit).count();
      figures_.points.push_back({sweep, name, running->who.system, value, seconds, {}, true});
    } else if (!outcome) {
      figures_.failed.push_back({what, outcome.error().message});
    } else if (outcome->result != results_[index]) {
      figures_.failed.push_back({what, "it did not find what it finds natively"});
    } else if (!counts) {
      figures_.failed.push_back({what, counts.error().message});
    } else {
      figures_.points.push_back({sweep, name, running->who.system, value, outcome->seconds, *counts, false});
    }
  }

  const SensitivityOptions& options_;
  PrefetchGround& ground_;
  std::vector<std::unique_ptr<PagedProgram>> programs_;
  std::vector<std::string> results_;                  // of each, natively
  std::set<std::pair<std::size_t, unsigned>> tried_;  // programs, and shares of their memory
  SensitivityFigures& figures_;
  Steps& steps_;
};

}  // namespace

Expected<SensitivityFigures> bench_sensitivity(const SensitivityOptions& options, Steps& steps) {
  SensitivityFigures figures;
  const Expected<TempFolder> folder = TempFolder::create();
  if (!folder) return folder.error();
  steps.stage("looking whether the machine is idle");
  figures.load_before = host_load(kLookAtLoad);
  figures.prefetch = options.prefetch;
  if (figures.prefetch.empty()) figures.prefetch = kPrefetchNames[static_cast<std::size_t>(RunSettings{}.prefetch)];
  figures.share = options.share;

  PrefetchGround ground;
  ground.folder = folder->path();
  ground.swap_folder = options.swap_folder;
  if (std::find(options.sweeps.begin(), options.sweeps.end(), Sweep::memory) != options.sweeps.end()) {
    ground.host = SwapHost::prepare(options.swap_folder);
    if (!ground.host) figures.skipped.push_back({"the kernel's swap", ground.host.error().message});
  }
  auto programs = make_sensitivity_programs(options.sizes, folder->path(), options.programs, figures.skipped);
  Expected<void> measured = SensitivityRun(options, ground, std::move(programs), figures, steps).run();
  if (!measured) figures.interrupted = interrupted();
  if (!measured && (!figures.interrupted || figures.points.empty())) return measured.error();
  return figures;
}

}  // namespace comex::bench

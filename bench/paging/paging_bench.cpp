#include "bench/paging/paging_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/units.h"
#include "bench/host_load.h"
#include "bench/interrupt.h"
#include "bench/own_nodes.h"
#include "bench/paging/comex_run.h"
#include "bench/paging/kernel_swap.h"
#include "bench/paging/load_order.h"
#include "bench/paging/swap_file.h"
#include "bench/paging/zram.h"
#include "cli/command_line.h"

namespace comex::bench {

namespace {

constexpr const char* kLoadProgram = "comex-paging-load";

// Nodes and swap areas hold the whole set, and then some: neither hands out its last page gladly.
std::uint64_t room_for(std::uint64_t set_bytes) {
  return (set_bytes + set_bytes / 4) / (2 << 20) * (2 << 20);
}

Expected<std::string> find_load_program() {
  std::string path = beside_this_program(kLoadProgram);
  if (::access(path.c_str(), X_OK) == 0) return path;
  return Error{Errc::unsupported, fmt::format("{} is missing: it belongs beside the comex command", path)};
}

std::vector<std::string> load_command(const std::string& program, std::uint64_t set_bytes, unsigned threads) {
  std::vector<std::string> command{program, "--set", std::to_string(set_bytes), "--threads", std::to_string(threads)};
  for (const Pattern pattern : kPatterns) command.insert(command.end(), {"--pass", std::string(to_string(pattern))});
  return command;
}

// Everything that is measured, and what it needs to live.
class PagingField {
 public:
  // Those that are compared stand side by side: they are measured moments apart. The slow disk comes last.
  void open(const PagingOptions& options, const std::string& folder, PagingFigures& figures, Steps& steps) {
    const std::uint64_t room = room_for(options.set_bytes);
    const std::uint64_t local = options.local_bytes;
    const bool ours = options.pool.empty();
    Expected<void> nodes;
    if (ours) nodes = start_nodes(folder, room, steps);
    steps.stage("setting up the kernel's swap");
    host_ = SwapHost::prepare(options.swap_folder);

    for (const Url& node : options.pool) {
      auto system = comex_over(node, local, options.secret_file, folder);
      const std::string_view name = system->name();
      add(figures, name, std::move(system));
    }
    if (ours) add(figures, kPagingShm, nodes ? comex_over_shm(nodes_.nodes()[0], local, folder) : Made(nodes.error()));
    add(figures, kPagingZram,
        host_ ? KernelSwap::create(kPagingZram, *host_, Zram::create(room), local, folder + "/zram.log")
              : Made(host_.error()));
    if (ours) {
      add(figures, kPagingMessage, nodes ? comex_by_message(nodes_.nodes()[0], local, folder) : Made(nodes.error()));
      add(figures, kPagingTcp, nodes ? comex_over_tcp(nodes_.nodes()[1], local, folder) : Made(nodes.error()));
    }
    add(figures, kPagingDisk,
        host_ ? KernelSwap::create(kPagingDisk, *host_, SwapFile::create(options.swap_folder, room), local,
                                   folder + "/disk.log")
              : Made(host_.error()));
  }

  [[nodiscard]] const std::vector<std::unique_ptr<PagingSystem>>& systems() const { return systems_; }
  void settle() const { nodes_.settle(); }

 private:
  using Made = Expected<std::unique_ptr<PagingSystem>>;

  // One node for each medium: neither competes for the other's frames.
  Expected<void> start_nodes(const std::string& folder, std::uint64_t memory, Steps& steps) {
    steps.stage("starting two memory nodes");
    Expected<OwnNodes> started = OwnNodes::start(folder, 2, memory);
    if (!started) return started.error();
    nodes_ = *std::move(started);
    return {};
  }

  void add(PagingFigures& figures, std::string_view name, Made system) {
    if (system) {
      figures.systems.emplace_back(name);
      systems_.push_back(*std::move(system));
    } else {
      figures.skipped.push_back({std::string(name), system.error().message});
    }
  }

  OwnNodes nodes_;
  Expected<SwapHost> host_ = Error{Errc::unsupported, "not prepared"};
  std::vector<std::unique_ptr<PagingSystem>> systems_;  // the first to go: they refer to both
};

class PagingRounds {
 public:
  PagingRounds(const PagingField& field, const PagingOptions& options, std::string program, PagingFigures& figures,
               Steps& steps)
      : field_(field), options_(options), program_(std::move(program)), figures_(figures), steps_(steps) {
    for (const auto& system : field.systems()) runners_.push_back({system.get()});
    steps.expect(runners_.size() * options.rounds * kPagingThreads.size());
  }

  Expected<void> run() {
    const auto begin = Clock::now();
    for (unsigned round = 1; round <= options_.rounds; ++round) {
      const std::chrono::duration<double> spent = Clock::now() - begin;
      if (round > 1) choose(options_.seconds - spent.count());
      if (std::none_of(runners_.begin(), runners_.end(), [](const Runner& runner) { return runner.in; })) break;
      steps_.stage(fmt::format("round {} of {}", round, options_.rounds));
      figures_.rounds = round;
      for (Runner& runner : runners_) runner.seconds = 0;
      for (const unsigned threads : kPagingThreads) {
        for (Runner& runner : runners_) {
          if (runner.in) turn(runner, threads, round);
          if (interrupted()) return interruption();
        }
      }
    }
    return {};
  }

 private:
  struct Runner {
    PagingSystem* system = nullptr;
    bool in = true;
    double seconds = 0;  // that its last round took
  };

  // The quickest systems first, as many as fit into what is left. One that sat out, or broke, does not come back.
  void choose(double seconds_left) {
    std::vector<Runner*> by_cost;
    for (Runner& runner : runners_) {
      if (runner.in) by_cost.push_back(&runner);
    }
    std::sort(by_cost.begin(), by_cost.end(), [](const Runner* a, const Runner* b) { return a->seconds < b->seconds; });
    for (Runner* const runner : by_cost) {
      seconds_left -= runner->seconds;
      runner->in = seconds_left > 0;
    }
  }

  void turn(Runner& runner, unsigned threads, unsigned round) {
    const std::string_view name = runner.system->name();
    steps_.step(
        fmt::format("round {} of {}: {}, {} thread{}", round, options_.rounds, name, threads, threads > 1 ? "s" : ""));
    field_.settle();
    const auto begin = Clock::now();
    const Expected<ProgramResult> result = runner.system->run(load_command(program_, options_.set_bytes, threads));
    runner.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    const auto found = result ? parse_load_line(result->output, options_.local_bytes) : result.error();
    if (found) {
      for (const std::string_view column : kPagingColumns) {
        figures_.add(name, column, threads, round, found->at(std::string(column)));
      }
    } else {
      runner.in = false;
      figures_.failed.push_back({std::string(name), found.error().message});
    }
  }

  const PagingField& field_;
  const PagingOptions& options_;
  std::string program_;
  PagingFigures& figures_;
  Steps& steps_;
  std::vector<Runner> runners_;
};

}  // namespace

Expected<PagingFigures> bench_paging(const PagingOptions& options, Steps& steps) {
  PagingFigures figures;
  figures.set_bytes = options.set_bytes;
  figures.local_bytes = options.local_bytes;
  Expected<std::string> program = find_load_program();
  if (!program) return program.error();
  const Expected<TempFolder> folder = TempFolder::create();
  if (!folder) return folder.error();
  steps.stage("looking whether the machine is idle");
  figures.load_before = host_load(kLookAtLoad);

  PagingField field;
  field.open(options, folder->path(), figures, steps);
  if (interrupted()) return interruption();
  Expected<void> measured = PagingRounds(field, options, *std::move(program), figures, steps).run();
  if (!measured) return measured.error();
  return figures;
}

}  // namespace comex::bench

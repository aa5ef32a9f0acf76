// The command line of `comex bench`: flags, and how each measurement ends.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "bench/bench.h"
#include "bench/chaos/chaos_bench.h"
#include "bench/evict/evict_bench.h"
#include "bench/evict/evict_report.h"
#include "bench/interrupt.h"
#include "bench/keep/keep_bench.h"
#include "bench/keep/keep_report.h"
#include "bench/move_bench.h"
#include "bench/paging/paging_bench.h"
#include "bench/paging/paging_report.h"
#include "bench/pool_bench.h"
#include "bench/prefetch/prefetch_bench.h"
#include "bench/prefetch/prefetch_plot.h"
#include "bench/prefetch/prefetch_report.h"
#include "bench/report.h"
#include "bench/running/running_bench.h"
#include "bench/running/running_report.h"
#include "bench/sensitivity/sensitivity_bench.h"
#include "bench/sensitivity/sensitivity_report.h"
#include "cli/config_flags.h"
#include "cli/link_options.h"
#include "cli/report.h"
#include "pool/code_text.h"

namespace comex::bench {

namespace {

constexpr int kExitInterrupted = 130;  // as a shell reports SIGINT

int fail_or_interrupted(const Error& error) {
  return interrupted() ? fail(error.message, kExitInterrupted) : fail(error);
}

// --pool and what it takes to use it. Without the flag a bench starts nodes of its own, whatever the configuration
// says: nobody's pool is put under load unasked.
class PoolFlags {
 public:
  explicit PoolFlags(CLI::App& command) : command_(command) {
    flags_.add(command, "--pool", "pool.nodes", "URL,...", "Memory nodes to measure (two of our own on this machine)");
    flags_.add(command, "--secret-file", "pool.secret_file", "FILE", "The secret shared with them");
    flags_.add(command, "--tls-ca", "pool.tls_ca", "FILE", "The authority to trust for tls:// nodes (the system's)");
    flags_.add(command, "--tls-cert", "pool.tls_cert", "FILE", "The certificate to show to tls:// nodes that ask");
    flags_.add(command, "--tls-key", "pool.tls_key", "FILE", "... and its key");
  }

  // Nothing, where the user names no pool.
  [[nodiscard]] Expected<std::optional<Config>> load() const {
    if (command_.count("--pool") == 0) return std::optional<Config>();
    Expected<Config> config = flags_.load();
    if (!config) return std::move(config).error();
    return std::optional(*std::move(config));
  }
  // Fills in the two, or leaves them alone where the user names no pool.
  Expected<void> load(std::vector<Url>& pool, LinkOptions& link) const {
    Expected<std::optional<Config>> config = load();
    if (!config) return std::move(config).error();
    if (!*config) return {};
    Expected<LinkOptions> options = link_options((*config)->pool, "comex bench");
    if (!options) return options.error();
    pool = std::move((*config)->pool.nodes);
    link = *std::move(options);
    return {};
  }

 private:
  CLI::App& command_;
  ConfigFlags flags_;
};

struct PoolCommand {
  explicit PoolCommand(CLI::App& command) : flags(command) {
    command.add_option("--seconds", seconds, "How long to measure (150; with --quick 10)")
        ->type_name("S")
        ->check(CLI::Range(1.0, 3600.0));
    command.add_flag("--quick", quick, "Fewer rounds: a first impression");
    command.add_flag("--json", json, "Print JSON instead of tables");
  }

  int run() const {
    PoolBenchOptions options;
    if (quick) options.make_quick();
    if (seconds) options.seconds = *seconds;
    if (Expected<void> loaded = flags.load(options.pool, options.link); !loaded) return fail(loaded.error());
    const InterruptGuard guard;
    Steps steps;
    const Expected<Figures> figures = bench_pool(options, steps);
    steps.clear();
    if (!figures) return fail_or_interrupted(figures.error());
    const std::vector<Goal> goals = judge(*figures);
    const std::string text =
        json ? to_json(*figures, goals).dump(2) + "\n" : to_text(*figures, goals, ::isatty(STDOUT_FILENO) == 1);
    fmt::print("{}", text);
    return 0;
  }

  PoolFlags flags;
  std::optional<double> seconds;
  bool quick = false;
  bool json = false;
};

struct PagingCommand {
  explicit PagingCommand(CLI::App& command) : flags(command) {
    command.add_option("--set", set, "How much memory the program touches (1G; with --quick 256M)")->type_name("SIZE");
    command.add_option("--local", local, "How much of it may be local (half of it)")->type_name("SIZE");
    command.add_option("--folder", folder, "Where the swap file is made (/var/tmp)")
        ->type_name("FOLDER")
        ->check(CLI::ExistingDirectory);
    command.add_flag("--quick", quick, "Less memory, fewer rounds: a first impression");
    command.add_flag("--json", json, "Print JSON instead of tables");
  }

  int run() const {
    PagingOptions options;
    if (quick) options.make_quick();
    if (Expected<void> sized = read_sizes(options); !sized) return fail(sized.error().message, kExitBadUsage);
    if (!folder.empty()) options.swap_folder = folder;
    Expected<std::optional<Config>> config = flags.load();
    if (!config) return fail(config.error());
    if (*config) {
      options.pool = (*config)->pool.nodes;
      options.secret_file = (*config)->pool.secret_file;
    }
    const InterruptGuard guard;
    Steps steps;
    const Expected<PagingFigures> figures = bench_paging(options, steps);
    steps.clear();
    if (!figures) return fail_or_interrupted(figures.error());
    const std::vector<Goal> goals = judge(*figures);
    const std::string text =
        json ? to_json(*figures, goals).dump(2) + "\n" : to_text(*figures, goals, ::isatty(STDOUT_FILENO) == 1);
    fmt::print("{}", text);
    return figures->failed.empty() ? 0 : kExitFailed;
  }

  Expected<void> read_sizes(PagingOptions& options) const {
    if (!set.empty()) {
      const Expected<std::uint64_t> bytes = parse_size(set);
      if (!bytes) return Error{Errc::invalid, "--set: " + bytes.error().message};
      options.set_bytes = *bytes;
      options.local_bytes = *bytes / 2;
    }
    if (!local.empty()) {
      const Expected<std::uint64_t> bytes = parse_size(local);
      if (!bytes) return Error{Errc::invalid, "--local: " + bytes.error().message};
      options.local_bytes = *bytes;
    }
    if (options.local_bytes < kLeastPagingLocal || options.local_bytes >= options.set_bytes) {
      return Error{Errc::invalid, fmt::format("--local: give at least {} and less than --set, or nothing is paged",
                                              format_size(kLeastPagingLocal))};
    }
    return {};
  }

  PoolFlags flags;
  std::string set;
  std::string local;
  std::string folder;
  bool quick = false;
  bool json = false;
};

struct PrefetchCommand {
  explicit PrefetchCommand(CLI::App& command) {
    const std::vector<std::string> prefetchers(kPrefetchNames.begin(), kPrefetchNames.end());
    command.add_option("--workload", options.programs, "Only these")
        ->type_name("NAME,...")
        ->delimiter(',')
        ->check(CLI::IsMember(prefetch_program_names()));
    command.add_option("--prefetch", options.prefetchers, "Only these prefetchers")
        ->type_name("NAME,...")
        ->delimiter(',')
        ->check(CLI::IsMember(prefetchers));
    command.add_option("--evict", options.evictors, "Only these eviction policies beside the usual one")
        ->type_name("NAME,...")
        ->delimiter(',')
        ->check(CLI::IsMember(std::vector<std::string>(kEvictNames.begin(), kEvictNames.end())));
    command.add_option("--system", options.systems, "Only these systems: comex shm, comex tcp, zram, disk file")
        ->type_name("NAME,...")
        ->delimiter(',')
        ->check(CLI::IsMember(options.systems));
    command.add_option("--rounds", options.rounds, "How often everything is measured (1)")
        ->type_name("N")
        ->check(CLI::Range(1, 1000));
    command.add_option("--folder", options.swap_folder, "Where the swap file is made (/var/tmp)")
        ->type_name("FOLDER")
        ->check(CLI::ExistingDirectory);
    command.add_option("--plot", plot, "Write drawings of the figures there, as SVG")->type_name("FOLDER");
    command.add_flag("--quick", quick, "Little memory: a first impression");
    command.add_flag("--json", json, "Print JSON instead of tables");
  }

  int run() {
    if (quick) options.sizes = ProgramSizes::quick();
    const InterruptGuard guard;
    Steps steps;
    const Expected<PrefetchFigures> figures = bench_prefetch(options, steps);
    steps.clear();
    if (!figures) return fail_or_interrupted(figures.error());
    const std::vector<Goal> goals = judge(*figures);
    const std::string text =
        json ? to_json(*figures, goals).dump(2) + "\n" : to_text(*figures, goals, ::isatty(STDOUT_FILENO) == 1);
    fmt::print("{}", text);
    if (!plot.empty()) {
      if (Expected<void> drawn = plot::write_drawings(draw(*figures), plot); !drawn) return fail(drawn.error());
    }
    return figures->failed.empty() ? 0 : kExitFailed;
  }

  PrefetchOptions options;
  std::string plot;
  bool quick = false;
  bool json = false;
};

struct SensitivityCommand {
  explicit SensitivityCommand(CLI::App& command) {
    command.add_option("--workload", options.programs, "Only these")
        ->type_name("NAME,...")
        ->delimiter(',')
        ->check(CLI::IsMember(sensitivity_program_names()));
    std::vector<std::string> names;
    for (const Sweep sweep : kSweeps) names.emplace_back(to_string(sweep));
    command.add_option("--vary", varied, "Only these: threshold, prefetch, buffer, memory")
        ->type_name("NAME,...")
        ->delimiter(',')
        ->check(CLI::IsMember(names));
    std::vector<std::string> prefetchers(kPrefetchNames.begin(), kPrefetchNames.end());
    std::erase(prefetchers, kPrefetchNames[static_cast<std::size_t>(Prefetch::record)]);  // it needs a run before
    command.add_option("--prefetch", options.prefetch, "Which prefetcher (the usual one)")
        ->type_name("NAME")
        ->check(CLI::IsMember(prefetchers));
    command.add_option("--folder", options.swap_folder, "Where the swap file is made (/var/tmp)")
        ->type_name("FOLDER")
        ->check(CLI::ExistingDirectory);
    command.add_option("--plot", plot, "Write drawings of the figures there, as SVG")->type_name("FOLDER");
    command.add_flag("--quick", quick, "Little memory, few sizes: a first impression");
    command.add_flag("--json", json, "Print JSON instead of tables");
  }

  int run() {
    if (quick) options.make_quick();
    if (!varied.empty()) options.sweeps.clear();
    for (const Sweep sweep : kSweeps) {
      if (std::find(varied.begin(), varied.end(), to_string(sweep)) != varied.end()) options.sweeps.push_back(sweep);
    }
    const InterruptGuard guard;
    Steps steps;
    const Expected<SensitivityFigures> figures = bench_sensitivity(options, steps);
    steps.clear();
    if (!figures) return fail_or_interrupted(figures.error());
    fmt::print("{}", json ? to_json(*figures).dump(2) + "\n" : to_text(*figures));
    if (!plot.empty()) {
      if (Expected<void> drawn = plot::write_drawings(draw(*figures), plot); !drawn) return fail(drawn.error());
    }
    if (figures->interrupted) return kExitInterrupted;
    return figures->failed.empty() ? 0 : kExitFailed;
  }

  SensitivityOptions options;
  std::vector<std::string> varied;
  std::string plot;
  bool quick = false;
  bool json = false;
};

struct EvictCommand {
  explicit EvictCommand(CLI::App& command) {
    command.add_option("--rounds", options.rounds, "How often everything is measured (3)")
        ->type_name("N")
        ->check(CLI::Range(1, 1000));
    std::vector<std::string> names;
    for (const References each : kReferences) names.emplace_back(to_string(each));
    command.add_option("--references", wanted, "Only these strings of references")
        ->type_name("NAME,...")
        ->delimiter(',')
        ->check(CLI::IsMember(names));
    command.add_option("--plot", plot, "Write a drawing of the figures there, as SVG")->type_name("FOLDER");
    command.add_flag("--quick", quick, "Little memory: a first impression");
    command.add_flag("--json", json, "Print JSON instead of a table");
  }

  int run() {
    std::erase_if(options.references, [&](References each) {
      return !wanted.empty() && std::find(wanted.begin(), wanted.end(), to_string(each)) == wanted.end();
    });
    if (quick) options.local_bytes = EvictOptions::kQuickBytes;
    const InterruptGuard guard;
    Steps steps;
    const Expected<EvictFigures> figures = bench_evict(options, steps);
    steps.clear();
    if (!figures) return fail_or_interrupted(figures.error());
    fmt::print("{}", json ? to_json(*figures).dump(2) + "\n" : to_text(*figures));
    if (!plot.empty()) {
      if (Expected<void> drawn = plot::write_drawings(draw(*figures), plot); !drawn) return fail(drawn.error());
    }
    return figures->failed.empty() ? 0 : kExitFailed;
  }

  EvictOptions options;
  std::vector<std::string> wanted;
  std::string plot;
  bool quick = false;
  bool json = false;
};

struct RunningCommand {
  explicit RunningCommand(CLI::App& command) {
    command.add_option("--rounds", options.rounds, "How often everything is measured (5)")
        ->type_name("N")
        ->check(CLI::Range(1, 1000));
    command.add_flag("--json", json, "Print JSON instead of a table");
  }

  int run() const {
    const InterruptGuard guard;
    Steps steps;
    const Expected<RunningFigures> figures = bench_running(options, steps);
    steps.clear();
    if (!figures) return fail_or_interrupted(figures.error());
    const std::vector<Goal> goals = judge(*figures);
    const std::string text =
        json ? to_json(*figures, goals).dump(2) + "\n" : to_text(*figures, goals, ::isatty(STDOUT_FILENO) == 1);
    fmt::print("{}", text);
    return figures->failed.empty() ? 0 : kExitFailed;
  }

  RunningOptions options;
  bool json = false;
};

struct KeepCommand {
  explicit KeepCommand(CLI::App& command) {
    command.add_option("--set", set, "How much memory the program touches (256M; with --quick 64M)")->type_name("SIZE");
    command.add_option("--rounds", rounds, "How often everything is measured (3; with --quick 1)")
        ->type_name("N")
        ->check(CLI::Range(1, 1000));
    command.add_flag("--quick", quick, "Little memory, one round: a first impression");
    command.add_flag("--json", json, "Print JSON instead of a table");
  }

  int run() const {
    KeepOptions options;
    if (quick) options.make_quick();
    if (rounds) options.rounds = *rounds;
    if (!set.empty()) {
      const Expected<std::uint64_t> bytes = parse_size(set);
      if (!bytes) return fail("--set: " + bytes.error().message, kExitBadUsage);
      options.set_bytes = *bytes;
    }
    if (options.local_bytes() < kLeastPagingLocal) {
      return fail(
          fmt::format("--set: give at least {}, a quarter of which is local", format_size(kLeastPagingLocal * 4)),
          kExitBadUsage);
    }
    const InterruptGuard guard;
    Steps steps;
    const Expected<KeepFigures> figures = bench_keep(options, steps);
    steps.clear();
    if (!figures) return fail_or_interrupted(figures.error());
    const std::vector<Goal> goals = judge(*figures);
    const std::string text =
        json ? to_json(*figures, goals).dump(2) + "\n" : to_text(*figures, goals, ::isatty(STDOUT_FILENO) == 1);
    fmt::print("{}", text);
    return figures->failed.empty() ? 0 : kExitFailed;
  }

  std::string set;
  std::optional<unsigned> rounds;
  bool quick = false;
  bool json = false;
};

struct ChaosCommand {
  explicit ChaosCommand(CLI::App& command) {
    command.add_option("--faults", faults, "How many (200; with --quick 20)")
        ->type_name("N")
        ->check(CLI::Range(1, 100'000));
    command.add_option("--nodes", options.nodes, "Memory nodes (4)")->type_name("N")->check(CLI::Range(1, 50));
    command.add_option("--copies", options.copies, "Copies of each page (2)")->type_name("N")->check(CLI::Range(1, 3));
    command.add_option("--code", options.code, "... or pages coded across nodes, as `comex run --code` does")
        ->type_name("K+M");
    command.add_option("--programs", options.programs, "Programs at a time (2)")
        ->type_name("N")
        ->check(CLI::Range(1, 50));
    command.add_option("--seed", options.seed, "Another seed, another storm (1)")->type_name("N");
    command.add_flag("--quick", quick, "A short storm of short faults");
    command.add_flag("--json", json, "Print JSON instead of sentences");
  }

  int run() {
    const auto code = parse_code(options.code);
    if (!options.code.empty() && (!code || code->nodes() > options.nodes)) {
      return fail("--code: use one such as 4+1, and as many --nodes", kExitBadUsage);
    }
    if (code) options.copies = 1;
    if (options.copies > options.nodes) return fail("--copies: each is on another of the --nodes", kExitBadUsage);
    if (quick) options.make_quick();
    if (faults) options.faults = *faults;
    const InterruptGuard guard;
    Steps steps;
    const Expected<ChaosFigures> figures = bench_chaos(options, steps);
    steps.clear();
    if (!figures) return fail_or_interrupted(figures.error());
    fmt::print("{}", json ? to_json(*figures) : to_text(*figures));
    return figures->wrong.empty() ? 0 : kExitFailed;
  }

  ChaosOptions options;
  std::optional<unsigned> faults;
  bool quick = false;
  bool json = false;
};

struct MoveCommand {
  explicit MoveCommand(CLI::App& command) : flags(command) {
    command.add_option("--size", size, "How much to move through the pool (2G)")->type_name("SIZE");
    command.add_option("--threads", threads, "How many threads move it (2)")->type_name("N")->check(CLI::Range(1, 64));
    command.add_flag("--json", json, "Print JSON instead of sentences");
  }

  int run() const {
    const Expected<std::uint64_t> bytes = parse_size(size);
    if (!bytes) return fail(fmt::format("--size: {}", bytes.error().message), kExitBadUsage);
    if (*bytes < kPageSize) return fail("--size: moves whole pages; give at least 4K", kExitBadUsage);
    MoveOptions options;
    options.bytes = *bytes;
    options.threads = threads;
    if (Expected<void> loaded = flags.load(options.pool, options.link); !loaded) return fail(loaded.error());
    const InterruptGuard guard;
    const Expected<MoveResult> result = bench_move(options);
    if (!result) return fail_or_interrupted(result.error());
    fmt::print("{}", json ? to_json(*result).dump(2) + "\n" : to_text(*result));
    return result->wrong_pages == 0 ? 0 : kExitFailed;
  }

  PoolFlags flags;
  std::string size = "2G";
  unsigned threads = 2;
  bool json = false;
};

// The command's state lives as long as the CLI::App that refers to it.
template <typename Command>
void add(CLI::App& bench, int& exit_code, const char* name, const char* help) {
  CLI::App& app = *bench.add_subcommand(name, help);
  const auto command = std::make_shared<Command>(app);
  app.callback([command, &exit_code] { exit_code = command->run(); });
}

}  // namespace

void add_commands(CLI::App& bench, int& exit_code) {
  add<PoolCommand>(bench, exit_code, "pool", "Latency and throughput beside memcpy, bare TCP, redis and nbdkit");
  add<PagingCommand>(bench, exit_code, "paging", "A program larger than its memory, on comex and on the kernel's swap");
  add<PrefetchCommand>(bench, exit_code, "prefetch",
                       "Every prefetcher and eviction policy on programs of many kinds, beside the kernel's swap");
  add<SensitivityCommand>(bench, exit_code, "sensitivity", "What the paper's T, P and B are worth, and memory");
  add<EvictCommand>(bench, exit_code, "evict", "What each eviction policy misses, beside the best possible");
  add<RunningCommand>(bench, exit_code, "run", "Programs that fit into their memory, with and without comex run");
  add<KeepCommand>(bench, exit_code, "keep",
                   "What copies and codes cost, and how long a program waits for a dead node");
  add<ChaosCommand>(bench, exit_code, "chaos", "Programs that verify every word, while nodes and wires fail");
  add<MoveCommand>(bench, exit_code, "move", "Move data through the pool and check every byte");
}

}  // namespace comex::bench

#include "cli/run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/personality.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/fd.h"
#include "base/units.h"
#include "cli/accompany.h"
#include "cli/backup_plan.h"
#include "cli/config_flags.h"
#include "cli/link_options.h"
#include "cli/machine.h"
#include "cli/profile_file.h"
#include "cli/program.h"
#include "cli/replicas.h"
#include "cli/report.h"
#include "cli/run_plan.h"
#include "node/host_memory.h"
#include "run/launch/glance.h"
#include "run/launch/launch.h"
#include "run/room.h"

namespace comex {
namespace {

struct RunFlags {
  ConfigFlags config;
  bool at_once = false;
  bool old_kernel = false;
  bool relayed = false;
  Tuning tuning;
  std::vector<std::string> command;
  bool verbose = false;
};

// Not emptied: the program may not start after all. No file is asked for: none.
Expected<Fd> open_to_write(const std::string& path, const char* flag) {
  if (path.empty()) return Fd();
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (file) return file;
  return Error{Errc::invalid, fmt::format("{}: cannot write {}: {}", flag, path, std::strerror(errno))};
}

// The trace is written while the program runs, and its end waits until all is: so not to who may not read it.
Expected<Fd> open_trace(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_fifo(path, error)) {
    return Error{Errc::invalid, fmt::format("--trace: {} is a pipe, and the program might wait for its reader; name a "
                                            "file",
                                            path)};
  }
  return open_to_write(path, "--trace");
}

Expected<Launch> plan(const Config& config, const std::string& program) {
  Launch launch;
  KeeperOptions& options = launch.keeper;
  auto link = link_options(config.pool, program);
  if (!link) return std::move(link).error();
  options.pool.link = *std::move(link);
  options.pool.nodes = config.pool.nodes;
  options.pool.copies = config.run.nodes();
  options.code = config.run.code;
  if (auto enough = check_replicas(config); !enough) return std::move(enough).error();
  auto memory = read_host_memory();
  if (!memory) return std::move(memory).error();
  auto sums = plan_run(config.run, *memory, options.pool.nodes.empty());
  if (!sums) return std::move(sums).error();
  options.local = sums->local;
  options.own_memory = sums->own_memory;
  options.program = program;
  options.summary = config.run.summary;
  launch.hard = sums->hard;
  launch.delivery = config.run.faults;
  launch.prefetch = config.run.prefetch;
  launch.evict = config.run.evict;
  if (config.run.encrypt && !Cipher::available()) {
    return Error{Errc::invalid, "--encrypt: this processor has no instructions for AES; run without"};
  }
  auto backup = plan_backup(config.run);
  if (!backup) return std::move(backup).error();
  options.backup = *std::move(backup);
  // A disk is not to be trusted, whatever the rest of the pool is.
  launch.sealing = sealing_for(config.run.encrypt, config.run.checksums || !options.backup.folder.empty());
  if (!config.run.profile.empty()) {
    auto profile = find_profile(config.run.profile);
    if (!profile) return std::move(profile).error();
    options.profile = *std::move(profile);
    if (launch.prefetch == Prefetch::automatic) launch.prefetch = Prefetch::record;
  } else if (launch.prefetch == Prefetch::record) {
    return Error{Errc::invalid, "--prefetch record needs a profile; say --profile FILE"};
  }
  auto stats = open_to_write(config.run.stats, "--stats");
  if (!stats) return std::move(stats).error();
  launch.stats = *std::move(stats);
  auto trace = open_trace(config.run.trace);
  if (!trace) return std::move(trace).error();
  launch.trace = *std::move(trace);
  return launch;
}

// A debugger reads and writes memory without a word to the program: where the kernel can wait for what is away, it is
// to.
bool is_traced() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("TracerPid:")) return std::strtol(line.c_str() + std::strlen("TracerPid:"), nullptr, 10) != 0;
  }
  return false;
}

// What was chosen for the user, where that was not the user's own choice.
void explain(const Launch& launch, const RunFlags& flags) {
  const KeeperOptions& options = launch.keeper;
  if (options.own_memory > 0) {
    fmt::print(stderr, "comex: no pool is configured: {} of this machine is lent for as long as the program runs\n",
               format_size(options.own_memory));
  }
  if (flags.verbose) {
    fmt::print(stderr, "comex: {} of the program stay here; {} if the pool is full\n", format_size(options.local),
               format_size(launch.hard));
  }
}

constexpr unsigned long kWhatIsIt = 0xffffffff;  // personality(2): tells, and changes nothing

// Does not return if all is well: this process is the program then.
int become(const std::string& program, const RunFlags& flags, const Launch& launch) {
  const std::string& name = flags.command.front();
  const auto variable = start_keeper(launch, launch.keeper.later ? watcher_program() : keeper_program());
  if (!variable) return fail(variable.error().message, kExitBadUsage);
  const std::string runtime = runtime_library();
  const char* const before = std::getenv("LD_PRELOAD");
  const std::string preload = before != nullptr && *before != 0 ? runtime + ":" + before : runtime;
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv(Room::kVariable, variable->c_str(), 1);
  // The same addresses in every run. Where that is not allowed, most are known by where they lie to one another.
  if (!launch.keeper.profile.empty()) personality(personality(kWhatIsIt) | ADDR_NO_RANDOMIZE);
  std::vector<char*> arguments;
  for (const std::string& argument : flags.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  const int error = errno;
  return fail(fmt::format("cannot run {}: {}", name, std::strerror(error)),
              error == ENOENT ? kExitNotFound : kExitNotRunnable);
}

int run(const RunFlags& flags, const Config& config, const std::string& log) {
  const std::string& name = flags.command.front();
  const std::string program = find_program(name);
  if (program.empty()) return fail(fmt::format("cannot run {}: not found", name), kExitNotFound);
  if (const auto refusal = examine_program(program)) {
    return fail(fmt::format("cannot run {}: {}", name, refusal->why), refusal->exit_code);
  }
  if (const auto missing = first_missing(check_needs(config.run.faults))) return fail(*missing, kExitBadUsage);
  auto launch = plan(config, name);
  if (!launch) return fail(launch.error().message, kExitBadUsage);
  launch->keeper.log = log;
  launch->keeper.relay = flags.relayed;
  launch->keeper.command = fmt::format("{}", fmt::join(flags.command, " "));
  if (is_traced() && !first_missing(check_needs(Delivery::message))) launch->delivery = Delivery::message;
  launch->at_once = flags.at_once;
  launch->old_kernel = flags.old_kernel;
  launch->tuning = flags.tuning;
  launch->keeper.stock = flags.tuning.stock;
  const PoolConfig& pool = launch->keeper.pool;
  launch->keeper.later = launch->can_wait() && (pool.nodes.empty() || seen_at_a_glance(pool));
  explain(*launch, flags);
  if (!launch->told()) return become(program, flags, *launch);
  return accompany([&](Fd done) {
    launch->done = std::move(done);
    return become(program, flags, *launch);
  });
}

// For `comex bench sensitivity`.
void add_tuning(CLI::App& command, Tuning& tuning) {
  const auto add = [&](const char* name, std::uint32_t& value, unsigned least, unsigned most, const char* help) {
    command.add_option(name, value, help)->check(CLI::Range(least, most))->group("");
  };
  add("--tune-stock", tuning.stock, 64, 1 << 18, "Frames to keep at hand before more are asked for");
  add("--tune-prefetch", tuning.prefetch, 2, 1 + Plan::kMost, "Pages that one fault brings at most");
  add("--tune-buffer", tuning.buffer, 32, 1 << 15, "Pages in the read buffer");
}

}  // namespace

void add_run(CLI::App& app, std::span<char* const> line, int& exit_code, const std::string& log) {
  CLI::App& command = *app.add_subcommand("run", "Run a program with more memory than it may keep here");
  auto flags = std::make_shared<RunFlags>();
  flags->config.add(command, "--local", "run.local", "SIZE|auto",
                    "How much of its memory the program may keep on this machine (512M)");
  flags->config.add(command, "--hard", "run.hard", "SIZE|auto",
                    "... and how much if the pool is full; then it is stopped (half way to all there is)");
  flags->config.add(command, "--faults", "run.faults", "inline|message",
                    "Who brings pages back: the thread that touched (inline), or threads beside it");
  flags->config.add(
      command, "--prefetch", "run.prefetch", "NAME",
      fmt::format("Which pages come along with one that is brought back: {} (auto)", fmt::join(kPrefetchNames, ", ")));
  flags->config.add(command, "--evict", "run.evict", "NAME",
                    fmt::format("Which pages leave first: {} (2q)", fmt::join(kEvictNames, ", ")));
  flags->config.add(command, "--pool", "pool.nodes", "URL,...", "Memory nodes to use (one of its own on this machine)");
  flags->config.add(command, "--replicas", "run.replicas", "1|2|3",
                    "On how many of them each page is kept, so that it outlives the others (1)");
  flags->config.add(
      command, "--code", "run.code", "K+M",
      "... or code pages: K of them and M of parity on as many nodes, any K of which will do; 4+1 (none)");
  flags->config.add(command, "--backup", "run.backup", "DIR",
                    "A folder on a disk: where pages go when the pool is full, and where a copy is of those that have "
                    "one node");
  flags->config.add(command, "--backup-size", "run.backup_size", "SIZE|auto",
                    "How much of that disk may be used (half of what is free)");
  flags->config.add(command, "--secret-file", "pool.secret_file", "FILE", "The secret shared with them");
  flags->config.add(command, "--checksums", "run.checksums", "on|off",
                    "Whether pages that come back are compared with what left (on)");
  flags->config.add_switch(command, "--encrypt", "run.encrypt", "true", "Encrypt pages before they leave the program");
  flags->config.add(command, "--stats", "run.stats", "FILE", "When it has ended, write what happened, as JSON");
  flags->config.add(command, "--trace", "run.trace", "FILE", "Write all its faults there; see `comex trace`");
  flags->config.add(command, "--profile", "run.profile", "FILE",
                    "Bring in ahead what the last run with this file had to wait for, and keep it for the next");
  flags->config.add_switch(command, "--summary", "run.summary", "true", "When it has ended, say what happened");
  command.add_flag("-v,--verbose", flags->verbose, "Say what was chosen");
  // For tests and measurements.
  command.add_flag("--at-once", flags->at_once, "Watch the program from its start, not only near its budget")
      ->group("");
  command.add_flag("--old-kernel", flags->old_kernel, "Use nothing of the kernel that Linux 6.1 has not")->group("");
  command.add_flag("--relayed", flags->relayed, "Pages go through the keeper over TCP, too, as over RDMA")->group("");
  add_tuning(command, flags->tuning);
  const CLI::Option* const words =
      command.add_option("command", flags->command, "The program and its arguments, after --")->required();
  command.positionals_at_end();
  command.footer(
      "Exit code: the program's own. 2: it was not started, and why; 126, 127: it cannot be run, is not there;\n"
      "125: it was stopped by comex. `comex doctor` says whether this machine is ready.");
  command.callback([flags, line, words, &command, &exit_code, &log] {
    // As they were given: CLI11 takes "[1,2]" for a list of two. They are the last ones.
    const auto count = std::ranges::count(command.parse_order(), words);
    const auto given = line.last(static_cast<std::size_t>(count));
    flags->command.assign(given.begin(), given.end());
    const auto config = flags->config.load();
    exit_code = config ? run(*flags, *config, log) : fail(config.error());
  });
}

}  // namespace comex

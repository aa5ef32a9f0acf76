// comex-commands, which `comex` becomes for all but `comex run`: every command, and the help.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/log.h"
#include "cli/command_line.h"
#include "cli/drain.h"
#include "cli/serve.h"
#ifdef COMEX_WITH_RUN
#include "cli/doctor.h"
#include "cli/run.h"
#endif
#include "cli/report.h"
#include "cli/sim.h"
#include "cli/status.h"
#include "cli/trace.h"

namespace {

constexpr const char* kWelcome =
    R"(comex: use the idle memory of your other machines from any Linux program.

  comex serve --memory 4G               lend 4 GiB of this machine to programs on it
  comex serve --secret-file FILE        ... and to other machines that know the secret
  comex status --pool tcp://HOST:7171   see the pool
  comex drain tcp://HOST:7171           empty a node: programs move their pages to others
)"
#ifdef COMEX_WITH_RUN
    R"(  comex run --local 512M -- PROGRAM     run a program with more memory than it may keep here
  comex doctor                          is this machine ready for that, and what to do
)"
#endif
#ifdef COMEX_WITH_BENCH
    R"(  comex bench pool                      measure it beside memcpy, TCP, redis and nbdkit
)"
#endif
    R"(
`comex --help` lists all commands, `comex COMMAND --help` the flags of one.
)";

#ifdef COMEX_WITH_BENCH
// A program of its own: its peers have libraries that nothing else needs.
void add_bench(CLI::App& app, char** argv, int& exit_code) {
  CLI::App& bench = *app.add_subcommand("bench", "Measure comex, with its peers side by side");
  bench.prefix_command();
  bench.set_help_flag();
  bench.callback([argv, &exit_code] {
    const std::string program = comex::beside_this_program("comex-bench");
    ::execv(program.c_str(), argv);
    exit_code = comex::fail(fmt::format("cannot run {}: {}", program, std::strerror(errno)), comex::kExitFailed);
  });
}
#endif

int run(int argc, char** argv) {
  std::string level;
  const auto add = [&](CLI::App& app, int& exit_code) {
    comex::add_serve(app, exit_code);
    comex::add_status(app, exit_code);
    comex::add_drain(app, exit_code);
    comex::add_trace(app, exit_code);
    comex::add_sim(app, exit_code);
#ifdef COMEX_WITH_RUN
    comex::add_run(app, {argv, static_cast<std::size_t>(argc)}, exit_code, level);
    comex::add_doctor(app, exit_code);
#endif
#ifdef COMEX_WITH_BENCH
    add_bench(app, argv, exit_code);
#endif
  };
  const auto log = [&](const std::string& chosen) {
    level = chosen;
    comex::start_logging(level);
  };
  return comex::run_command_line(argc, argv, {.welcome = kWelcome, .add = add, .log = log});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (...) {
    return comex::kExitFailed;  // no memory, before anything was begun
  }
}

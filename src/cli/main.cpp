// The comex command: reads the command line and hands over to the command's own file.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "cli/report.h"
#include "cli/serve.h"
#ifdef COMEX_WITH_RUN
#include "cli/doctor.h"
#include "cli/run.h"
#endif
#include "cli/status.h"
#ifdef COMEX_WITH_BENCH
#include "bench/bench.h"
#endif

namespace {

using comex::fail;
using comex::kExitBadUsage;
using comex::kExitFailed;

constexpr const char* kWelcome =
    R"(comex: use the idle memory of your other machines from any Linux program.

  comex serve --memory 4G               lend 4 GiB of this machine to programs on it
  comex serve --secret-file FILE        ... and to other machines that know the secret
  comex status --pool tcp://HOST:7171   see the pool
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

// "comex serve", for pointing at the right help.
std::string command_line_name(const CLI::App& app) {
  std::string name = "comex";
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

int explain(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);  // --help, --version
  return fail(fmt::format("{}; see `{} --help`", error.what(), command_line_name(app)), kExitBadUsage);
}

// The first word that should be a command and is none: CLI11 would call it an argument that was not expected.
std::optional<std::string> unknown_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const auto commands = at->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty()) break;  // a command that takes words of its own
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&](const CLI::App* command) { return command->get_name() == argv[i]; });
    if (found == commands.end()) {
      return fmt::format("unknown command '{}'; `{} --help` lists them", argv[i],
                         at == &app ? "comex" : "comex " + at->get_name());
    }
    at = *found;
  }
  return std::nullopt;
}

int run(int argc, char** argv) {
  int exit_code = 0;
  CLI::App app("Use the idle memory of your other machines from any Linux program.", "comex");
  app.set_version_flag("--version", "comex " COMEX_VERSION);
  app.require_subcommand(0, 1);
  std::string log_level;
  app.add_option("--log", log_level, "What to log on stderr: trace, debug, info, warning, error, off (or COMEX_LOG)")
      ->type_name("LEVEL");

  comex::add_serve(app, exit_code);
  comex::add_status(app, exit_code);
#ifdef COMEX_WITH_RUN
  comex::add_run(app, exit_code);
  comex::add_doctor(app, exit_code);
#endif
#ifdef COMEX_WITH_BENCH
  CLI::App& bench = *app.add_subcommand("bench", "Measure the pool, with its peers side by side");
  bench.require_subcommand(1);
  comex::bench::add_commands(bench, exit_code);
#endif
  // Before the command's own callback runs.
  app.parse_complete_callback([&] {
    // A node that runs for months has a story to tell; a command that prints an answer has not.
    const auto started = comex::start_logging(log_level, app.got_subcommand("serve") ? "info" : "warning");
    if (!started) throw CLI::ValidationError(started.error().message);
  });

  if (argc <= 1) {
    fmt::print("{}", kWelcome);
    return 0;
  }
  if (const auto unknown = unknown_command(app, argc, argv)) return fail(*unknown, kExitBadUsage);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return fail(error.what(), kExitFailed);
  } catch (...) {
    return fail("an unknown error ended the command", kExitFailed);
  }
}

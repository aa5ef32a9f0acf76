#include "cli/command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "base/log_level.h"
#include "cli/report.h"

namespace comex {
namespace {

// "comex serve", for pointing at the right help.
std::string command_line_name(const CLI::App& app) {
  std::string name = "comex";
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

// CLI11 lists all that it could not place, a "--" too, in an order of its own.
std::string not_expected(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  const auto option =
      std::ranges::find_if(words, [](const std::string& word) { return word != "--" && word[0] == '-'; });
  if (option != words.end()) return fmt::format("unknown option '{}'", *option);
  const auto word = std::ranges::find_if(words, [](const std::string& each) { return each != "--"; });
  return fmt::format("'{}' was not expected", word != words.end() ? *word : "--");
}

int explain(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);  // --help, --version
  const bool extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  return fail(fmt::format("{}; see `{} --help`", extra ? not_expected(app) : error.what(), command_line_name(app)),
              kExitBadUsage);
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

int run(int argc, char** argv, const CommandLine& line) {
  int exit_code = 0;
  CLI::App app("Use the idle memory of your other machines from any Linux program.", "comex");
  app.set_version_flag("--version", "comex " COMEX_VERSION);
  app.require_subcommand(0, 1);
  std::string log;
  app.add_option("--log", log, "What to log on stderr: trace, debug, info, warning, error, off (or COMEX_LOG)")
      ->type_name("LEVEL");
  line.add(app, exit_code);
  // Before the command's own callback runs.
  app.parse_complete_callback([&] {
    // A node that runs for months has a story to tell; a command that prints an answer has not.
    const auto commands = app.get_subcommands();
    const bool serves = !commands.empty() && commands.front()->get_name() == "serve";
    const auto level = log_level(log, serves ? "info" : "warning");
    if (!level) throw CLI::ValidationError(level.error().message);
    line.log(*level);
  });

  if (argc <= 1) {
    fmt::print("{}", line.welcome);
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

int run_command_line(int argc, char** argv, const CommandLine& line) {
  try {
    return run(argc, argv, line);
  } catch (const std::exception& error) {
    return fail(error.what(), kExitFailed);
  } catch (...) {
    return fail("an unknown error ended the command", kExitFailed);
  }
}

std::string beside_this_program(const std::string& name) {
  std::array<char, 4096> self{};
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size() - 1);
  const std::string path(self.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  for (const char* const place : {"../lib/comex/", "../../bin/"}) {
    if (access((folder + name).c_str(), F_OK) == 0) break;
    if (std::string there = folder + place + name; access(there.c_str(), F_OK) == 0) return there;
  }
  return folder + name;
}

}  // namespace comex

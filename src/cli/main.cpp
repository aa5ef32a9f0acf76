// The comex command. `comex run` is on the way of every program that is started with it: it is done here, and this
// program links no more than that needs. For everything else it becomes comex-commands.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "cli/command_line.h"
#include "cli/report.h"
#ifdef COMEX_WITH_RUN
#include "cli/run.h"
#endif

namespace {

int become_commands(char** argv) {
  const std::string program = comex::beside_this_program("comex-commands");
  execv(program.c_str(), argv);
  return comex::fail(fmt::format("cannot run {}: {}; install comex as a whole", program, std::strerror(errno)),
                     comex::kExitFailed);
}

#ifdef COMEX_WITH_RUN
int run(int argc, char** argv) {
  std::string level;
  const std::span<char* const> line(argv, static_cast<std::size_t>(argc));
  const auto add = [&](CLI::App& app, int& exit_code) { comex::add_run(app, line, exit_code, level); };
  return comex::run_command_line(
      argc, argv, {.welcome = "", .add = add, .log = [&](const std::string& chosen) { level = chosen; }});
}
#endif

}  // namespace

int main([[maybe_unused]] int argc, char** argv) {
#ifdef COMEX_WITH_RUN
  if (argc > 1 && std::string_view(argv[1]) == "run") return run(argc, argv);
#endif
  return become_commands(argv);
}

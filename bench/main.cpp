// comex-bench, which `comex bench` becomes: it has the same command line.
#include "base/log.h"
#include "bench/bench.h"
#include "cli/command_line.h"

int main(int argc, char** argv) {
  return comex::run_command_line(argc, argv,
                                 {.welcome = "comex-bench is run by `comex bench`.\n",
                                  .add =
                                      [](CLI::App& app, int& exit_code) {
                                        CLI::App& bench =
                                            *app.add_subcommand("bench", "Measure comex, with its peers side by side");
                                        bench.require_subcommand(1);
                                        comex::bench::add_commands(bench, exit_code);
                                      },
                                  .log = comex::start_logging});
}

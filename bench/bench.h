// `comex bench`: measures comex beside what people have today, in one run, and prints ratios.
#pragma once

#include <CLI/CLI.hpp>

namespace comex::bench {

// Adds the subcommands `pool`, `paging`, `prefetch`, `sensitivity`, `evict`, `run` and `move` to `comex bench`. Their
// callbacks run when the command line is parsed and set `exit_code`, which must live until then: 0 measured, 1 failed
// or a byte was wrong, 2 bad usage, 130 interrupted.
void add_commands(CLI::App& bench, int& exit_code);

}  // namespace comex::bench

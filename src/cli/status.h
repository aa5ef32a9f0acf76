// `comex status`: every memory node of the pool, asked at the same time.
#pragma once

#include <CLI/CLI.hpp>

namespace comex {

// Adds the command. Its callback sets `exit_code`: 0 every node answered, 1 one did not, 2 bad usage.
void add_status(CLI::App& app, int& exit_code);

}  // namespace comex

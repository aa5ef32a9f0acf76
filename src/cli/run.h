// `comex run`: a program with more memory than its machine has.
#pragma once

#include <CLI/CLI.hpp>

namespace comex {

void add_run(CLI::App& app, int& exit_code);

}  // namespace comex

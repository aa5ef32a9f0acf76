// `comex run`: a program with more memory than its machine has.
#pragma once

#include <CLI/CLI.hpp>

namespace comex {

// `log`: the level, known by the time the command runs.
void add_run(CLI::App& app, int& exit_code, const std::string& log);

}  // namespace comex

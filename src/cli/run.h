// `comex run`: a program with more memory than its machine has.
#pragma once

#include <span>
#include <string>

#include <CLI/CLI.hpp>

namespace comex {

// `line`: the command line that will be parsed; `log`: the level, known by the time the command runs.
void add_run(CLI::App& app, std::span<char* const> line, int& exit_code, const std::string& log);

}  // namespace comex

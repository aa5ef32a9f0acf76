// `comex doctor`: is this machine ready to run programs, and what to do where it is not.
#pragma once

#include <CLI/CLI.hpp>

namespace comex {

void add_doctor(CLI::App& app, int& exit_code);

}  // namespace comex

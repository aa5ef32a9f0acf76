// `comex trace`: what a file of `comex run --trace` says, and a picture of it.
#pragma once

#include <CLI/CLI.hpp>

namespace comex {

void add_trace(CLI::App& app, int& exit_code);

}  // namespace comex

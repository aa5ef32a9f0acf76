// `comex drain`: empties a memory node, so that it can be stopped and nobody loses anything.
#pragma once

#include <CLI/CLI.hpp>

namespace comex {

void add_drain(CLI::App& app, int& exit_code);

}  // namespace comex

// `comex serve`: lends this machine's memory until it is told to stop.
#pragma once

#include <CLI/CLI.hpp>

namespace comex {

// Adds the command. Its callback runs when the command line has been parsed, returns when the node has stopped, and
// sets `exit_code`: 0 stopped by a signal, 1 the host cannot, 2 bad usage.
void add_serve(CLI::App& app, int& exit_code);

}  // namespace comex

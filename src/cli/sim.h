// `comex sim`: a thousand nodes and ten thousand programs, on simulated links and clocks.
#pragma once

#include <CLI/CLI.hpp>

namespace comex {

void add_sim(CLI::App& app, int& exit_code);

}  // namespace comex

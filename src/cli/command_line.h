// What the programs that make up the comex command have in common: the command line and how it is explained.
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace comex {

// Reads the command line and lets the command's callback run. `add` adds the commands, whose callbacks set `exit_code`.
// The program's exit code. `welcome` is for who says nothing at all.
int run_command_line(int argc, char** argv, const char* welcome,
                     const std::function<void(CLI::App& app, int& exit_code)>& add);

// Where a file is that belongs beside this program.
std::string beside_this_program(const char* name);

}  // namespace comex

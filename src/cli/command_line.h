// What the programs that make up the comex command have in common: the command line and how it is explained.
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace comex {

struct CommandLine {
  const char* welcome;  // for who says nothing at all
  // Adds the commands, whose callbacks set `exit_code`.
  std::function<void(CLI::App& app, int& exit_code)> add;
  // Called before the command's own callback.
  std::function<void(const std::string& level)> log;
};

// Reads the command line and lets the command's callback run. Returns the program's exit code.
int run_command_line(int argc, char** argv, const CommandLine& line);

// Where a part of comex is: beside this program, or where an installation has it.
std::string beside_this_program(const std::string& name);

}  // namespace comex

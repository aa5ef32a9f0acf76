// Flags of a command that are settings of the configuration: they go through the same table as files and variables,
// and win over them.
//
// Thread safety: none; used while the command line is read.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/expected.h"
#include "cli/config.h"

namespace comex {

class ConfigFlags {
 public:
  // `flag` takes a value, called `value` in the help, for the setting `key` ("serve.memory").
  void add(CLI::App& command, const std::string& flag, const std::string& key, const std::string& value,
           const std::string& help);
  // `flag` takes none and sets `key` to `text`: --no-lock sets serve.lock to false.
  void add_switch(CLI::App& command, const std::string& flag, const std::string& key, const std::string& text,
                  const std::string& help);

  // The configuration with the flags that were given. REQUIRES: the command line has been parsed.
  [[nodiscard]] Expected<Config> load() const;

 private:
  struct Flag {
    std::string name;
    std::string key;
    std::string text;     // a switch: what it sets
    CLI::Option* option;  // owned by the CLI::App
  };
  std::vector<Flag> flags_;
};

}  // namespace comex

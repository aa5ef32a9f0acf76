#include "cli/config_flags.h"

namespace comex {

void ConfigFlags::add(CLI::App& command, const std::string& flag, const std::string& key, const std::string& value,
                      const std::string& help) {
  CLI::Option* const option = command.add_option(flag, help)->type_name(value)->expected(1)->take_last();
  flags_.push_back(Flag{flag, key, {}, option});
}

void ConfigFlags::add_switch(CLI::App& command, const std::string& flag, const std::string& key,
                             const std::string& text, const std::string& help) {
  flags_.push_back(Flag{flag, key, text, command.add_flag(flag, help)});
}

Expected<Config> ConfigFlags::load() const {
  auto config = load_config();
  if (!config) return config;
  for (const Flag& flag : flags_) {
    if (flag.option->count() == 0) continue;
    const std::string text = flag.text.empty() ? flag.option->as<std::string>() : flag.text;
    if (auto done = set_config(*config, flag.key, text, flag.name); !done) return std::move(done).error();
  }
  return config;
}

}  // namespace comex

#include "fabric/hosts_file.h"

#include <strings.h>

#include <algorithm>

namespace comex {
namespace {

// The next word of `line`, which begins after it then; empty at the end, or before a remark.
std::string_view next_word(std::string_view& line) {
  constexpr std::string_view kBlank = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(" \t\r#"));
  line.remove_prefix(word.size());
  return word;
}

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::vector<std::string> addresses_in(std::string_view hosts, std::string_view name) {
  std::vector<std::string> found;
  while (!hosts.empty()) {
    std::string_view line = hosts.substr(0, hosts.find('\n'));
    hosts.remove_prefix(std::min(line.size() + 1, hosts.size()));
    const std::string_view address = next_word(line);
    for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
      if (!same_name(word, name)) continue;
      found.emplace_back(address);
      break;
    }
  }
  return found;
}

}  // namespace comex

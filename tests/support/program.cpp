#include "support/program.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/read_file.h"
#include "support/wait.h"

namespace comex::test {
namespace {

std::string contents(const std::string& path) {
  return read_file(path).value_or("");
}

}  // namespace

std::string run_variable(pid_t pid) {
  const std::string environment = '\0' + contents("/proc/" + std::to_string(pid) + "/environ");
  const std::string name = std::string(1, '\0') + "COMEX_RUN=";
  const auto at = environment.find(name);
  if (at == std::string::npos) return "";
  const auto begin = at + name.size();
  return environment.substr(begin, environment.find('\0', begin) - begin);
}

pid_t keeper_of(const std::string& variable) {
  const std::string mark = "/proc/";
  const auto at = variable.find(mark);
  pid_t pid = 0;
  if (at != std::string::npos) {
    std::from_chars(variable.data() + at + mark.size(), variable.data() + variable.size(), pid);
  }
  return pid;
}

bool is_there(pid_t pid) {
  const std::string stat = contents("/proc/" + std::to_string(pid) + "/stat");
  const auto bracket = stat.rfind(')');
  return bracket != std::string::npos && stat.size() > bracket + 2 && stat[bracket + 2] != 'Z';
}

std::vector<pid_t> tree_of(const std::string& variable) {
  std::vector<pid_t> found;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failure)) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    if (run_variable(pid) == variable && is_there(pid)) found.push_back(pid);
  }
  return found;
}

bool nothing_left_soon(const std::string& variable) {
  const auto space = variable.find(' ');
  const std::string socket = variable.substr(space + 1, variable.find(' ', space + 1) - space - 1);
  return wait_until([&] {
    return tree_of(variable).empty() && !is_there(keeper_of(variable)) &&
           contents("/proc/net/unix").find(socket) == std::string::npos;
  });
}

}  // namespace comex::test

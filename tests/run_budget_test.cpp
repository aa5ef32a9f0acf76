// The budget is that of the whole tree of processes, as the kernel counts their memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/test_folder.h"
#include "support/process.h"
#include "support/program.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

constexpr std::uint64_t kMebi = 1 << 20;

std::uint64_t private_bytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  const std::string name = "RssAnon:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(name.size())) << 10;
  }
  return 0;  // it has ended
}

// The most that the tree had, but for moments: its processes are looked at one after the other.
std::uint64_t most_while_it_runs(Process& process, const std::string& variable) {
  std::uint64_t most = 0;
  std::uint64_t last[2] = {};
  while (!process.wait(Millis(1))) {
    std::uint64_t sum = 0;
    for (const pid_t pid : tree_of(variable)) sum += private_bytes(pid);
    most = std::max(most, std::min({last[0], last[1], sum}));
    last[0] = std::exchange(last[1], sum);
  }
  return most;
}

TEST(RunBudget, of_a_tree_of_processes_is_kept) {
  const TestFolder folder;
  const std::string load = COMEX_PAGING_LOAD " --set 144M --pass random-write --pass sequential";
  Process process(
      {COMEX_BINARY, "run", "--at-once", "--local", "128M", "--", "/bin/sh", "-c", load + " & " + load + " & wait"},
      folder.path("."));
  std::string variable;
  ASSERT_TRUE(wait_until([&] { return !(variable = run_variable(process.pid())).empty(); })) << process.errors();
  const std::uint64_t most = most_while_it_runs(process, variable);
  EXPECT_EQ(process.wait(), 0) << process.errors();
  EXPECT_LE(most, (128 + 16) * kMebi) << "2 % or 16 MiB, whichever is more";
  EXPECT_GT(most, 96 * kMebi) << "what may stay is used";
}

}  // namespace
}  // namespace comex::test

#endif

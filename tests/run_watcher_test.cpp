// What is beside a program before it needs memory (run/keeper/watcher_main.cpp), and then.
#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "support/node.h"
#include "support/process.h"
#include "support/program.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

class RunWatcher : public testing::Test {
 protected:
  // Uses so many MB each time it is told a number, and says how many pages are wrong.
  Process start(const std::vector<std::string>& flags = {}) {
    const auto script = folder_.file("grow.py", R"(
parts = []
print('ready', flush=True)
while line := input():
    part = bytearray(int(line) * 1_000_000)
    for i in range(0, len(part), 4096): part[i] = i // 4096 % 251
    parts.append(part)
    print(sum(part[i] != i // 4096 % 251 for part in parts for i in range(0, len(part), 4096)), flush=True)
)");
    std::vector<std::string> words{COMEX_BINARY, "run", "--local", "64M"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "/usr/bin/python3", script});
    Process process(words, folder_.path("."));
    EXPECT_EQ(process.read_line(), "ready") << process.errors();
    return process;
  }
  static std::string beside(const std::string& variable) {
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(keeper_of(variable)) + "/comm"), name);
    return name;
  }

  TestFolder folder_;
};

TEST_F(RunWatcher, becomes_the_keeper_when_memory_is_needed) {
  auto process = start();
  const std::string variable = run_variable(process.pid());
  const pid_t before = keeper_of(variable);
  EXPECT_EQ(beside(variable), "comex-watcher");
  EXPECT_TRUE(process.write_line("1"));
  EXPECT_EQ(process.read_line(), "0");
  EXPECT_EQ(beside(variable), "comex-watcher") << "that fits in";
  EXPECT_TRUE(process.write_line("200"));
  EXPECT_EQ(process.read_line(), "0");
  EXPECT_EQ(beside(variable), "comex-keeper");
  EXPECT_EQ(keeper_of(variable), before) << "the same process: it is known by its number";
  EXPECT_TRUE(process.write_line(""));
  EXPECT_EQ(process.wait(), 0) << process.errors();
  EXPECT_TRUE(nothing_left_soon(variable));
}

// Of a pool, too, nobody asks for anything before that.
TEST_F(RunWatcher, reaches_the_pool_when_memory_is_needed) {
  ServerConfig config = TestNode::config();
  config.memory = 300 << 20;
  const TestNode node(Over::tcp, config);
  std::optional<Process> process;
  const auto begun = [&] {
    process.emplace(start({"--pool", node.url(Over::shm).text()}));
    return beside(run_variable(process->pid())) == "comex-watcher";
  };
  ASSERT_TRUE(wait_until(begun)) << "if a machine is busy, the first glance may not be enough";
  const std::string variable = run_variable(process->pid());
  EXPECT_TRUE(wait_until([&] { return node.clients() == 0; }));
  EXPECT_TRUE(process->write_line("200"));
  EXPECT_EQ(process->read_line(), "0");
  EXPECT_EQ(beside(variable), "comex-keeper");
  EXPECT_GT(node.clients(), 0U);
  EXPECT_LT(node.free_frames(), node.frames());
  EXPECT_TRUE(process->write_line(""));
  EXPECT_EQ(process->wait(), 0) << process->errors();
  EXPECT_TRUE(nothing_left_soon(variable));
}

// As with one that goes away later: the program keeps its pages here until it is back.
TEST_F(RunWatcher, a_pool_that_is_away_when_memory_is_needed) {
  const std::string socket = folder_.path("node");
  const auto serve = [&] { return start_node({"--listen", "none", "--socket", socket}, folder_.path("."), "300M"); };
  std::optional<NodeProcess> node = serve();
  auto process = start({"--pool", "unix://" + socket});
  node.reset();
  EXPECT_TRUE(process.write_line("200"));
  EXPECT_EQ(process.read_line(), "0");
  EXPECT_TRUE(wait_until([&] { return process.errors().find("no memory node can be reached") != std::string::npos; }))
      << process.errors();
  node.emplace(serve());
  EXPECT_TRUE(wait_until([&] { return process.errors().find("within --local 64.0 MiB again") != std::string::npos; }))
      << process.errors();
  EXPECT_TRUE(process.write_line("1"));
  EXPECT_EQ(process.read_line(), "0");
  EXPECT_TRUE(process.write_line(""));
  EXPECT_EQ(process.wait(), 0) << process.errors();
}

TEST_F(RunWatcher, ends_with_the_program) {
  auto process = start();
  const std::string variable = run_variable(process.pid());
  EXPECT_TRUE(process.write_line(""));
  EXPECT_EQ(process.wait(), 0) << process.errors();
  EXPECT_TRUE(nothing_left_soon(variable));
}

}  // namespace
}  // namespace comex::test

#endif

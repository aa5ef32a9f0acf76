// Ends of programs under `comex run`, good and bad: the exit code is the program's, and nothing is left behind.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "support/node.h"
#include "support/process.h"
#include "support/program.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

// Twice its budget, and a child that has as much; both wait for ever.
constexpr const char* kFamily = R"(
import os, time
data = bytearray(48_000_000)
for i in range(0, len(data), 4096): data[i] = 1
if os.fork() == 0: time.sleep(1000)
print('ready', flush=True)
time.sleep(1000)
)";

class RunKill : public testing::Test {
 protected:
  // Over shm; no node: one of its own.
  Process start(std::vector<std::string> flags, const std::vector<std::string>& program) {
    flags.insert(flags.begin(), {COMEX_BINARY, "run", "--at-once", "--local", "16M"});
    flags.push_back("--");
    flags.insert(flags.end(), program.begin(), program.end());
    return Process(flags, folder_.path("."));
  }
  Process start_family(const std::vector<std::string>& flags = {}) {
    auto process = start(flags, {"/usr/bin/python3", folder_.file("family.py", kFamily)});
    EXPECT_EQ(process.read_line(), "ready") << process.errors();
    return process;
  }
  NodeProcess serve() {
    return start_node({"--listen", "none", "--socket", folder_.path("node.sock")}, folder_.path("."), "256M");
  }
  bool all_frames_come_back(const NodeProcess& node) {
    return wait_until([&] {
      const Outcome status = run_comex({"status", "--pool", node.shm->text(), "--json"}, folder_.path("."));
      return status.output.find("\"used_bytes\": 0,") != std::string::npos;
    });
  }
  // Nobody but these tests makes such files.
  static std::size_t files() {
    std::size_t count = 0;
    for (const char* folder : {"/tmp", "/dev/shm"}) {
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        count += entry.path().filename().string().starts_with("comex-run");
      }
    }
    return count;
  }

  TestFolder folder_;
};

TEST_F(RunKill, the_program_and_then_its_child) {
  const auto node = serve();
  auto process = start_family({"--pool", node.shm->text()});
  const std::string variable = run_variable(process.pid());
  ASSERT_TRUE(wait_until([&] { return tree_of(variable).size() == 2; }));
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait(), 128 + SIGKILL);
  const auto left = tree_of(variable);
  ASSERT_EQ(left.size(), 1U) << "the child lives on, as it would without comex";
  kill(left[0], SIGKILL);
  EXPECT_TRUE(nothing_left_soon(variable));
  EXPECT_TRUE(all_frames_come_back(node));
}

TEST_F(RunKill, a_child) {
  const auto node = serve();
  auto process = start_family({"--pool", node.shm->text()});
  const std::string variable = run_variable(process.pid());
  for (const pid_t pid : tree_of(variable)) {
    if (pid != process.pid()) kill(pid, SIGKILL);
  }
  EXPECT_TRUE(wait_until([&] { return tree_of(variable).size() == 1; }));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 128 + SIGTERM);
  EXPECT_TRUE(nothing_left_soon(variable));
  EXPECT_TRUE(all_frames_come_back(node));
}

TEST_F(RunKill, the_keeper) {
  const auto node = serve();
  auto process = start_family({"--pool", node.shm->text()});
  const std::string variable = run_variable(process.pid());
  ASSERT_TRUE(wait_until([&] { return tree_of(variable).size() == 2; }));
  kill(keeper_of(variable), SIGKILL);
  const auto began = Clock::now();
  EXPECT_EQ(process.wait(), 125) << "stopped, though it asked for nothing";
  EXPECT_LT(Clock::now() - began, Millis(5'000));
  EXPECT_TRUE(nothing_left_soon(variable));
  const std::string errors = process.errors();
  EXPECT_NE(errors.find("the keeper of this program is gone"), std::string::npos) << errors;
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << "once, whatever the number of processes: " << errors;
  EXPECT_TRUE(all_frames_come_back(node));
}

TEST_F(RunKill, the_keeper_with_a_node_of_its_own) {
  const std::size_t before = files();
  auto process = start_family();
  const std::string variable = run_variable(process.pid());
  EXPECT_EQ(files(), before);
  kill(keeper_of(variable), SIGKILL);
  EXPECT_EQ(process.wait(), 125);
  EXPECT_TRUE(nothing_left_soon(variable));
  EXPECT_EQ(files(), before);
}

TEST_F(RunKill, comex_run_that_waits_for_the_program) {
  const auto node = serve();
  auto process = start_family({"--pool", node.shm->text(), "--summary"});
  std::string variable;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process.pid()) + "/task")) {
    std::ifstream children(entry.path() / "children");
    pid_t child = 0;
    if (children >> child) variable = run_variable(child);
  }
  ASSERT_NE(variable, "");
  process.kill();
  const auto left = [&] {
    const auto tree = tree_of(variable);
    return tree.size() == 1 ? tree[0] : 0;
  };
  ASSERT_TRUE(wait_until([&] { return left() != 0; })) << "the program goes with it; its child is on its own";
  kill(left(), SIGKILL);
  EXPECT_TRUE(nothing_left_soon(variable));
  EXPECT_TRUE(all_frames_come_back(node));
}

TEST_F(RunKill, exit_codes_and_signals_are_the_programs) {
  for (const auto& flags : {std::vector<std::string>{}, std::vector<std::string>{"--summary"}}) {
    EXPECT_EQ(start(flags, {"/bin/sh", "-c", "exit 42"}).wait(), 42);
    EXPECT_EQ(start(flags, {"/bin/sh", "-c", "kill -SEGV $$"}).wait(), 128 + SIGSEGV);
    for (const int number : {SIGTERM, SIGINT, SIGUSR1}) {
      auto process = start(flags, {"/bin/sh", "-c", "echo ready; exec sleep 1000"});
      ASSERT_EQ(process.read_line(), "ready") << process.errors();
      process.signal(number);
      EXPECT_EQ(process.wait(), 128 + number);
    }
    auto careful =
        start(flags, {"/bin/sh", "-c", "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.01; done"});
    ASSERT_EQ(careful.read_line(), "ready");
    careful.signal(SIGTERM);
    EXPECT_EQ(careful.read_line(), "caught");
    EXPECT_EQ(careful.wait(), 7);
  }
}

TEST_F(RunKill, stopping_and_going_on) {
  const auto stopped = [](pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string stat;
    std::getline(file, stat);
    return stat.find(") T ") != std::string::npos;
  };
  for (const auto& flags : {std::vector<std::string>{}, std::vector<std::string>{"--summary"}}) {
    // Not SIGTSTP, as Ctrl-Z sends: it stops nobody where no shell is left that could let the group go on.
    auto process = start(flags, {"/bin/sh", "-c", "echo ready; kill -STOP $$; echo again"});
    EXPECT_EQ(process.read_line(), "ready");
    EXPECT_TRUE(wait_until([&] { return stopped(process.pid()); })) << "the shell that waits sees it";
    process.go_on();
    EXPECT_EQ(process.read_line(), "again");
    EXPECT_EQ(process.wait(), 0) << process.errors();
  }
}

}  // namespace
}  // namespace comex::test

#endif

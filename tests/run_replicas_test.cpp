// A program whose pages are on two nodes each, while nodes die, hang and come back.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <deque>
#include <fstream>

#include <nlohmann/json.hpp>

#include "support/node.h"
#include "support/process.h"
#include "support/program.h"
#include "support/toucher.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

class RunReplicas : public testing::Test {
 protected:
  // With a lease that no busy machine exceeds.
  void add_node(const std::string& listen = "127.0.0.1:0") {
    const std::string number = std::to_string(nodes_.size() + 1);
    nodes_.push_back(start_node({"--listen", listen, "--lease", "60s", "--nid", number, "--socket", "none"},
                                folder_.path("."), "256M"));
  }
  // Another takes its place, which knows nothing.
  void kill_and_replace(std::size_t node) {
    const std::string listen = nodes_[node].tcp->host + ":" + std::to_string(nodes_[node].tcp->port);
    nodes_[node].process.kill();
    add_node(listen);
  }
  std::string urls() const {
    std::string all;
    for (const auto& node : nodes_) all += (all.empty() ? "" : ",") + node.tcp->text();
    return all;
  }
  Process start(const std::vector<std::string>& program, const std::vector<std::string>& flags = {}) {
    std::vector<std::string> words{COMEX_BINARY, "run", "--at-once", "--local", "16M",
                                   "--replicas", "2",   "--pool",    urls()};
    words.insert(words.end(), flags.begin(), flags.end());
    words.emplace_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return Process(words, folder_.path("."));
  }
  Process touch(const std::vector<std::string>& flags = {}) {
    return start({"/usr/bin/python3", folder_.file("toucher.py", kToucher), "48"}, flags);
  }
  static bool says(const Process& process, const std::string& what) {
    return wait_until([&] { return process.errors().find(what) != std::string::npos; });
  }
  // Nothing was wrong. The pause is 2 s at most where nobody else wants the machine; here others may.
  static void expect_right(const std::string& answer) {
    int wrong = -1;
    int longest = -1;
    ASSERT_EQ(std::sscanf(answer.c_str(), "wrong %d longest %d", &wrong, &longest), 2) << answer;
    EXPECT_EQ(wrong, 0);
    EXPECT_LT(longest, 5000);
  }

  TestFolder folder_;
  std::deque<NodeProcess> nodes_;
};

TEST_F(RunReplicas, a_node_is_killed_and_its_copies_are_made_again) {
  for (int i = 0; i < 2; ++i) add_node();
  const std::string stats = folder_.path("stats.json");
  auto program = touch({"--stats", stats});
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  kill_and_replace(0);
  EXPECT_TRUE(says(program, " is lost (")) << program.errors();
  // All is well again when the other can go, too.
  ASSERT_TRUE(says(program, "all pages have 2 copies again")) << program.errors();
  kill_and_replace(1);
  expect_right(program.ask("end"));
  EXPECT_EQ(program.wait(), 0) << program.errors();
  std::ifstream file(stats);
  const auto report = nlohmann::json::parse(file);
  EXPECT_EQ(report["replicas"]["copies"], 2);
  EXPECT_GT(report["replicas"]["pages_copied_again"], 0);
}

TEST_F(RunReplicas, a_node_that_hangs_and_goes_on) {
  for (int i = 0; i < 2; ++i) add_node();
  auto program = touch();
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  ASSERT_TRUE(nodes_[0].process.stop());
  EXPECT_TRUE(says(program, "memory node " + nodes_[0].tcp->text() + " does not answer")) << program.errors();
  nodes_[0].process.go_on();
  EXPECT_TRUE(says(program, "memory node " + nodes_[0].tcp->text() + " answers again")) << program.errors();
  // What was written meanwhile has two copies as well.
  ASSERT_TRUE(says(program, "all pages have 2 copies again")) << program.errors();
  kill_and_replace(1);
  expect_right(program.ask("end"));
  EXPECT_EQ(program.wait(), 0) << program.errors();
}

// The checker forks, moves, discards and verifies every word, while one node after the other is killed or hangs.
TEST_F(RunReplicas, every_word_is_right_while_nodes_come_and_go) {
  for (int i = 0; i < 3; ++i) add_node();
  auto program = start({COMEX_CHECKER, "--seed", "11", "--threads", "2", "--set", "64", "--seconds", "5"});
  EXPECT_EQ(program.wait(Millis(1000)), std::nullopt) << program.errors();
  kill_and_replace(0);
  EXPECT_EQ(program.wait(Millis(1500)), std::nullopt) << program.errors();
  EXPECT_TRUE(nodes_[1].process.stop());
  EXPECT_EQ(program.wait(Millis(1500)), std::nullopt) << program.errors();
  nodes_[1].process.go_on();
  EXPECT_EQ(program.wait(Millis(60'000)), 0) << program.errors();
}

TEST_F(RunReplicas, too_few_nodes) {
  add_node();
  auto program = start({"/bin/true"});
  EXPECT_EQ(program.wait(), 2);
  EXPECT_TRUE(says(program, "--replicas 2 needs as many memory nodes that do not fail together, and the pool has 1"))
      << program.errors();
}

TEST_F(RunReplicas, too_few_nodes_that_answer) {
  add_node();
  add_node();
  nodes_[1].process.kill();
  auto program = start({"/bin/true"});
  EXPECT_EQ(program.wait(), 2);
  EXPECT_TRUE(says(program, "--replicas 2 needs as many memory nodes that do not fail together, and 1 can be used"))
      << program.errors();
}

}  // namespace
}  // namespace comex::test

#endif

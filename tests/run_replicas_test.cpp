// A program whose pages are on two nodes each, while nodes die, hang and come back.
#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "support/run_nodes.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

class RunReplicas : public RunNodes {
 protected:
  RunReplicas() : RunNodes("256M", {"--replicas", "2"}) {}
};

TEST_F(RunReplicas, a_node_is_killed_and_its_copies_are_made_again) {
  add_nodes(2);
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
  add_nodes(2);
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
  add_nodes(3);
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
  add_nodes(2);
  nodes_[1].process.kill();
  auto program = start({"/bin/true"});
  EXPECT_EQ(program.wait(), 2);
  EXPECT_TRUE(says(program, "--replicas 2 needs as many memory nodes that do not fail together, and 1 can be used"))
      << program.errors();
}

}  // namespace
}  // namespace comex::test

#endif

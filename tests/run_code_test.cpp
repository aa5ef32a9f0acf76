// A program whose pages are coded across five nodes, while nodes die, hang and come back.
#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "support/run_nodes.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

class RunCode : public RunNodes {
 protected:
  RunCode() : RunNodes("128M", {"--code", "4+1"}) {}
};

TEST_F(RunCode, a_node_is_killed_read_around_and_made_again) {
  add_nodes(5);
  const std::string stats = folder_.path("stats.json");
  auto program = touch({"--stats", stats});
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  kill_and_replace(0);
  EXPECT_TRUE(says(program, " is lost (")) << program.errors();
  // All is well again when another can go, too.
  ASSERT_TRUE(says(program, "all pages have their parity again")) << program.errors();
  kill_and_replace(1);
  expect_right(program.ask("end"));
  EXPECT_EQ(program.wait(), 0) << program.errors();
  std::ifstream file(stats);
  const auto report = nlohmann::json::parse(file);
  EXPECT_EQ(report["code"], "4+1");
  EXPECT_EQ(report["replicas"]["copies"], 1);
  EXPECT_GT(report["replicas"]["pages_copied_again"], 0);
}

TEST_F(RunCode, a_node_that_hangs_is_read_around) {
  add_nodes(5);
  auto program = touch();
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  ASSERT_TRUE(nodes_[2].process.stop());
  expect_right(program.ask("end"));  // with a look at all pages
  nodes_[2].process.go_on();
  EXPECT_EQ(program.wait(), 0) << program.errors();
}

// The checker forks, moves, discards and verifies every word with half of its memory; the pages are encrypted.
TEST_F(RunCode, every_word_is_right_while_a_node_goes) {
  add_nodes(5);
  auto program =
      start({COMEX_CHECKER, "--seed", "11", "--threads", "2", "--set", "32", "--seconds", "1"}, {"--encrypt"});
  EXPECT_EQ(program.wait(Millis(500)), std::nullopt) << program.errors();
  nodes_[2].process.kill();
  EXPECT_EQ(program.wait(Millis(60'000)), 0) << program.errors();
}

TEST_F(RunCode, status_says_how_pages_are_coded) {
  add_nodes(5);
  auto program = touch();
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  const auto mine = [&] {
    const auto status = run_comex({"status", "--json", "--pool", urls()}, folder_.path("."));
    const auto report = nlohmann::json::parse(status.output, nullptr, false);
    for (const auto& one : report.value("programs", nlohmann::json::array())) {
      if (one["pid"] == program.pid()) return one;
    }
    return nlohmann::json();
  };
  nlohmann::json report;
  ASSERT_TRUE(wait_until([&] { return report = mine(), !report.is_null() && report["held_bytes"] > 0; }));
  EXPECT_EQ(report["code"], "4+1");
  EXPECT_EQ(report["copies"], 1);
  EXPECT_GT(report["held_bytes"], report["bytes"]);
  const std::string table = run_comex({"status", "--pool", urls()}, folder_.path(".")).output;
  EXPECT_NE(table.find("     4+1  "), std::string::npos) << table;
  expect_right(program.ask("end"));
}

TEST_F(RunCode, too_few_nodes) {
  add_nodes(5);
  nodes_[4].process.kill();
  auto silent = start({"/bin/true"});
  EXPECT_EQ(silent.wait(), 2);
  EXPECT_TRUE(says(silent, "--code 4+1 needs 5 memory nodes that do not fail together, and 4 can be used"))
      << silent.errors();
  nodes_.pop_back();
  auto few = start({"/bin/true"});
  EXPECT_EQ(few.wait(), 2);
  EXPECT_TRUE(says(few, "--code 4+1 needs 5 memory nodes that do not fail together, and the pool has 4"))
      << few.errors();
}

TEST_F(RunCode, not_with_copies_or_a_backup) {
  add_nodes(1);
  auto copies = start({"/bin/true"}, {"--replicas", "2"});
  EXPECT_EQ(copies.wait(), 2);
  EXPECT_TRUE(says(copies, "--code 4+1 and --replicas 2 exclude each other")) << copies.errors();
  auto backup = start({"/bin/true"}, {"--backup", folder_.path(".")});
  EXPECT_EQ(backup.wait(), 2);
  EXPECT_TRUE(says(backup, "--code 4+1 and --backup ")) << backup.errors();
}

}  // namespace
}  // namespace comex::test

#endif

// Nodes that want their memory back while a program runs, as users meet them.
#include <gtest/gtest.h>

#include <cstdio>
#include <deque>

#include "support/node.h"
#include "support/own_address.h"
#include "support/process.h"
#include "support/run_nodes.h"
#include "support/toucher.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

class RunDrain : public testing::Test {
 protected:
  void add_node() {
    const std::string number = std::to_string(nodes_.size() + 1);
    nodes_.push_back(start_node(
        {"--listen", own_listen(), "--lease", "60s", "--nid", number, "--socket", folder_.path("node" + number)},
        folder_.path("."), "256M"));  // half of what a program holds may be homes that are free
  }
  std::string url(std::size_t node, bool shm) const { return (shm ? *nodes_[node].shm : *nodes_[node].tcp).text(); }
  Outcome drain(std::size_t node, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"drain", url(node, false)};
    words.insert(words.end(), more.begin(), more.end());
    return run_comex(words, folder_.path("."));
  }

  TestFolder folder_;
  std::deque<NodeProcess> nodes_;
};

TEST_F(RunDrain, a_program_goes_on_while_its_node_is_emptied_and_stopped) {
  for (const bool shm : {true, false}) {
    nodes_.clear();
    for (int i = 0; i < 2; ++i) add_node();
    ASSERT_EQ(drain(1).code, 0) << "so that all is on the other";
    Process program({COMEX_BINARY, "run", "--at-once", "--local", "16M", "--pool", url(0, shm) + "," + url(1, shm),
                     "--", "/usr/bin/python3", folder_.file("toucher.py", kToucher), "48"},
                    folder_.path("."));
    ASSERT_EQ(program.read_line(), "filled") << program.errors();
    ASSERT_EQ(drain(1, {"--undo"}).code, 0);
    const auto drained = drain(0);
    EXPECT_EQ(drained.code, 0) << drained.errors;
    EXPECT_NE(drained.output.find("is empty"), std::string::npos) << drained.output;
    nodes_[0].process.kill();
    int wrong = -1;
    const std::string answer = program.ask("end");
    ASSERT_EQ(std::sscanf(answer.c_str(), "wrong %d", &wrong), 1) << answer << program.errors();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(program.wait(), 0) << program.errors();
    EXPECT_NE(program.errors().find("were moved away"), std::string::npos) << program.errors();
  }
}

// As many nodes as copies, so that there is nowhere to go.
class RunDrainCopies : public RunNodes {
 protected:
  RunDrainCopies() : RunNodes("256M", {"--replicas", "2"}) {}
  Outcome drain(std::size_t node, const std::string& timeout) {
    return run_comex({"drain", nodes_[node].tcp->text(), "--timeout", timeout}, folder_.path("."));
  }
};

TEST_F(RunDrainCopies, without_another_node_the_pages_stay_and_it_is_said) {
  add_nodes(2);
  auto program = touch();
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  const auto drained = drain(0, "7s");
  EXPECT_EQ(drained.code, 1) << drained.output;
  ASSERT_EQ(drained.complaints().size(), 2U) << drained.errors;
  EXPECT_NE(drained.complaints()[0].find("no other node has room for pages of /usr/bin/python3"), std::string::npos)
      << drained.errors;
  EXPECT_NE(drained.complaints()[0].find("Waiting, for 7.0 s in all"), std::string::npos) << drained.errors;
  EXPECT_NE(drained.complaints()[1].find("after 7.0 s"), std::string::npos) << drained.errors;
  EXPECT_TRUE(says(program, "and no other has room")) << program.errors();
  expect_right(program.ask("end"));
  EXPECT_EQ(program.wait(), 0) << program.errors();
}

TEST_F(RunDrainCopies, with_a_disk_the_node_is_emptied) {
  add_nodes(2);
  auto program = touch({"--backup", folder_.path("."), "--backup-size", "256M"});
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  const auto drained = drain(0, "60s");
  EXPECT_EQ(drained.code, 0) << drained.errors << program.errors();
  nodes_[0].process.kill();
  expect_right(program.ask("end"));
  EXPECT_EQ(program.wait(), 0) << program.errors();
}

}  // namespace
}  // namespace comex::test

#endif

// Programs whose pages the keeper moves, to and from memory that both have, as over RDMA: here over TCP, so that it can
// be tried where there is no device.
#include <gtest/gtest.h>

#include "support/run_nodes.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

class RunRelayed : public RunNodes {
 protected:
  RunRelayed() : RunNodes("256M", {"--relayed"}) {}
  explicit RunRelayed(std::vector<std::string> flags) : RunNodes("256M", std::move(flags)) {}

  Process check(const char* seed, const char* seconds) {
    return start({COMEX_CHECKER, "--seed", seed, "--threads", "2", "--set", "64", "--seconds", seconds});
  }
};

// Threads, forks, moves and discards: see tests/checker.
TEST_F(RunRelayed, the_checker_finds_nothing) {
  add_node();
  auto program = check("21", "3");
  EXPECT_EQ(program.wait(Millis(60'000)), 0) << program.errors();
}

// What the runtime shares with its keeper is a file. Then it does without, in each child, too; and the program is not
// told by a signal.
TEST_F(RunRelayed, a_program_whose_files_must_be_short) {
  add_node();
  const std::string run = std::string(COMEX_BINARY) + " run --relayed --at-once --local 16M --pool " + urls();
  const std::string check = std::string(COMEX_CHECKER) + " --seed 23 --threads 2 --set 64 --seconds 1";
  Process program({"/bin/sh", "-c", "ulimit -S -f 1000; exec " + run + " -- " + check}, folder_.path("."));
  EXPECT_EQ(program.wait(Millis(60'000)), 0) << program.errors();
}

// Reads and writes are given up while the keeper still waits for them.
class RunRelayedCopies : public RunRelayed, public testing::WithParamInterface<const char*> {
 protected:
  RunRelayedCopies() : RunRelayed({"--relayed", "--replicas", "2", GetParam()}) {}
};

TEST_P(RunRelayedCopies, every_word_is_right_while_nodes_hang) {
  add_nodes(3);
  auto program = check("22", "6");
  for (std::size_t node = 0; node < 2; ++node) {
    EXPECT_EQ(program.wait(Millis(1000)), std::nullopt) << program.errors();
    EXPECT_TRUE(nodes_[node].process.stop());
    EXPECT_EQ(program.wait(Millis(1800)), std::nullopt) << program.errors();
    nodes_[node].process.go_on();
  }
  EXPECT_EQ(program.wait(Millis(60'000)), 0) << program.errors();
}

INSTANTIATE_TEST_SUITE_P(All, RunRelayedCopies, testing::Values("--prefetch=leap", "--encrypt"),
                         [](const auto& with) { return with.param[2] == 'e' ? "encrypted" : "plain"; });

}  // namespace
}  // namespace comex::test

#endif

// The pool while a program runs on it: full, with memory again, lost.
#include <gtest/gtest.h>
#include <signal.h>

#include "support/node.h"
#include "support/own_address.h"
#include "support/process.h"
#include "support/program.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

// Fills so many MiB, and looks at all of it whenever it is told to.
constexpr const char* kFillsAndWaits = R"(
import sys
size = int(sys.argv[1]) << 20
data = bytearray(size)
for i in range(0, size, 4096): data[i] = i // 4096 % 251
print('filled', flush=True)
for line in sys.stdin:
    print('wrong', sum(data[i] != i // 4096 % 251 for i in range(0, size, 4096)), flush=True)
    if line == 'end\n': break
)";

class RunPool : public testing::Test {
 protected:
  Process start(const std::string& url, const std::string& mib, const std::string& hard,
                const std::vector<std::string>& flags = {}) {
    std::vector<std::string> words{COMEX_BINARY, "run", "--local", "16M", "--hard", hard, "--pool", url};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "/usr/bin/python3", folder_.file("filler.py", kFillsAndWaits), mib});
    return Process(words, folder_.path("."));
  }
  static bool says(const Process& process, const std::string& what) {
    return wait_until([&] { return process.errors().find(what) != std::string::npos; });
  }
  static std::size_t count(const std::string& text, const std::string& what) {
    std::size_t found = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  }
  static ServerConfig small() {
    ServerConfig config = TestNode::config();
    config.memory = 48 << 20;
    return config;
  }

  TestFolder folder_;
};

TEST_F(RunPool, full_the_program_goes_on_and_recovers) {
  const TestNode node(Over::tcp, small());
  auto greedy = node.connect(Over::shm);
  const auto most = granted(*greedy, node.free_frames() - 4096);
  auto program = start(node.url(Over::shm).text(), "48", "400M");
  EXPECT_EQ(program.read_line(), "filled") << program.errors();
  EXPECT_TRUE(says(program, "the pool is full (48.0 MiB of unix://")) << program.errors();
  EXPECT_EQ(program.ask("look"), "wrong 0");
  EXPECT_EQ(program.errors().find("within"), std::string::npos) << program.errors();
  greedy->bye();
  EXPECT_TRUE(says(program, "the program is within --local 16.0 MiB again")) << program.errors();
  EXPECT_EQ(program.ask("end"), "wrong 0");
  EXPECT_EQ(program.wait(), 0) << program.errors();
  EXPECT_EQ(count(program.errors(), "\n"), 2U) << "one line each: " << program.errors();
  EXPECT_TRUE(node.all_free_soon());
}

TEST_F(RunPool, full_children_can_be_made) {
  const TestNode node;  // 16 MiB
  const auto script = folder_.file("fork.py", R"(
import os
size = 40 << 20
data = bytearray(size)
for i in range(0, size, 4096): data[i] = i // 4096 % 251
def wrong(): return sum(data[i] != i // 4096 % 251 for i in range(0, size, 4096))
pid = os.fork()
if pid == 0: os._exit(1 if wrong() else 0)
print(os.waitpid(pid, 0)[1], wrong())
)");
  const Outcome outcome = run_comex({"run", "--local", "16M", "--hard", "800M", "--pool", node.url(Over::shm).text(),
                                     "--", "/usr/bin/python3", script},
                                    folder_.path("."));
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "0 0\n") << outcome.errors;
}

TEST_F(RunPool, full_the_program_is_stopped_at_the_hard_limit) {
  const TestNode node;
  auto program = start(node.url(Over::shm).text(), "200", "64M");
  EXPECT_EQ(program.wait(), 125);
  EXPECT_TRUE(says(program, "more than --hard 64M")) << program.errors();
  EXPECT_TRUE(node.all_free_soon());
}

class RunLoss : public RunPool, public testing::WithParamInterface<Over> {};
INSTANTIATE_TEST_SUITE_P(Over, RunLoss, testing::Values(Over::shm, Over::tcp), testing::PrintToStringParamName());

TEST_P(RunLoss, the_program_is_stopped_and_told_which_node_it_was) {
  auto node = start_node({"--listen", own_listen(), "--socket", folder_.path("node.sock"), "--lease", "500ms"},
                         folder_.path("."), "256M");
  const std::string url = GetParam() == Over::shm ? node.shm->text() : node.tcp->text();
  auto program = start(url, "48", "400M", {"--at-once"});  // so that much is there by now
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  const std::string variable = run_variable(program.pid());
  node.process.kill();
  EXPECT_TRUE(says(program, "memory node " + url + " is lost (")) << "at once: " << program.errors();
  (void)program.write_line("end");
  EXPECT_EQ(program.wait(), 125) << program.errors();
  EXPECT_TRUE(says(program, "memory node " + url + " is lost, and with it the only copy of ")) << program.errors();
  EXPECT_EQ(program.read_line(), std::nullopt) << "nothing that it made of wrong bytes";
  EXPECT_TRUE(nothing_left_soon(variable));
}

// A client that has given up on an answer hangs up and comes back. Were it taken for one that has ended, the only
// copies of its pages would be gone, because a node on the same machine was slow.
TEST_F(RunPool, a_node_on_this_machine_that_did_not_answer_for_a_while) {
  auto node = start_node({"--socket", folder_.path("node.sock"), "--lease", "60s"}, folder_.path("."), "64M");
  auto program = start(node.shm->text(), "48", "400M");
  EXPECT_EQ(program.read_line(), "filled") << program.errors();
  ASSERT_TRUE(node.process.stop());
  EXPECT_TRUE(says(program, "does not answer")) << program.errors();
  node.process.go_on();
  EXPECT_TRUE(says(program, "answers again")) << program.errors();
  EXPECT_EQ(program.ask("end"), "wrong 0");
  EXPECT_EQ(program.wait(), 0) << program.errors();
}

// Whoever has no handler for a signal can be ended by it while it waits for a page, and is told what it waits for.
TEST_F(RunPool, silent_the_program_is_told_and_can_be_ended) {
  auto node = start_node({"--listen", own_listen(), "--lease", "60s"}, folder_.path("."), "64M");
  auto program = start(node.tcp->text(), "48", "400M");
  EXPECT_EQ(program.read_line(), "filled") << program.errors();
  ASSERT_TRUE(node.process.stop());
  ASSERT_TRUE(program.write_line("look"));
  EXPECT_TRUE(says(program, "does not answer: the program waits when it needs one of its")) << program.errors();
  // The interpreter has a handler for the one, which cannot run without the page, and none for the other.
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(Millis(200)), std::nullopt);
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 128 + SIGTERM) << program.errors();
  node.process.go_on();
}

}  // namespace
}  // namespace comex::test

#endif

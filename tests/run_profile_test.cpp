// --profile: what one run waited for, the next brings in ahead; and what does not fit does no harm.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include "support/node.h"
#include "support/process.h"
#include "support/program.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

using Json = nlohmann::json;

// A list that goes to and fro in memory, the same way each time, and what is found along it.
constexpr const char* kChase = R"(
import array, os, random, sys
count, rounds, seed = int(sys.argv[1]) << 8, int(sys.argv[2]), int(sys.argv[3])
order = list(range(count))
random.Random(seed).shuffle(order)
memory = array.array('q', bytes(count << 12))
for here, there in zip(order, order[1:] + order[:1]): memory[here << 9] = there
at = total = 0
for step in range(count * rounds):
    at = memory[at << 9]
    total = (total * 31 + at) % 1000003
    if len(sys.argv) > 4 and step == count: os.kill(os.getpid(), 9)
print(total)
)";

class RunProfile : public testing::Test {
 protected:
  Outcome run(const std::vector<std::string>& program, const std::vector<std::string>& flags = {}) {
    std::vector<std::string> words{"run",
                                   "--local",
                                   "24M",
                                   "--pool",
                                   node_.url(Over::tcp).text(),
                                   "--secret-file",
                                   folder_.file("secret", TestNode::kSecret),
                                   "--stats",
                                   folder_.path("stats.json"),
                                   "--profile",
                                   file(),
                                   "--at-once"};  // however short it is
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return run_comex(words, folder_.path("."));
  }
  [[nodiscard]] std::vector<std::string> chase(const std::vector<std::string>& arguments) const {
    std::vector<std::string> words{"/usr/bin/python3", folder_.file("chase.py", kChase)};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  [[nodiscard]] std::uint64_t waits() const {
    std::ifstream stats(folder_.path("stats.json"));
    return Json::parse(stats)["faults"]["from_node"].get<std::uint64_t>();
  }
  // Per cent of the faults.
  static int known(const Outcome& outcome) {
    constexpr std::string_view kBefore = "it knew ";
    const std::size_t at = outcome.errors.find(kBefore);
    return at == std::string::npos ? 0 : std::atoi(outcome.errors.c_str() + at + kBefore.size());
  }
  [[nodiscard]] std::string file() const { return folder_.path("profile"); }
  static ServerConfig config() {
    ServerConfig config = TestNode::config();
    config.memory = 96 << 20;
    return config;
  }
  static void expect_said(const Outcome& outcome, const std::string& what) {
    EXPECT_NE(outcome.errors.find(what), std::string::npos) << outcome.errors;
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
  }

  TestFolder folder_;
  TestNode node_{Over::tcp, config()};
};

// How much comes in time depends on who else wants the machine; each run adds what the one before did not know.
TEST_F(RunProfile, later_runs_hardly_wait) {
  for (const std::string faults : {"inline", "message"}) {
    std::filesystem::remove(file());
    const auto program = chase({"20", "2", "1"});
    const Outcome first = run(program, {"--faults", faults});
    ASSERT_EQ(first.code, 0) << first.errors;
    expect_said(first, "made: ");
    const std::uint64_t before = waits();
    ASSERT_GT(before, 1000U);
    std::uint64_t least = before;
    for (int again = 0; again < 3 && least >= before / 2; ++again) {
      const Outcome later = run(program, {"--faults", faults});
      EXPECT_EQ(later.code, 0);
      EXPECT_EQ(later.output, first.output);
      expect_said(later, "used; it knew ");
      least = std::min(least, waits());
    }
    EXPECT_LT(least, before / 2) << "by " << faults;
  }
}

TEST_F(RunProfile, another_order_is_found_out_and_does_no_harm) {
  ASSERT_EQ(run(chase({"20", "2", "1"})).code, 0);
  const Outcome alone = run_comex(
      {"run", "--local", "24M", "--", "/usr/bin/python3", folder_.path("chase.py"), "20", "2", "2"}, folder_.path("."));
  const Outcome other = run(chase({"20", "2", "2"}));
  EXPECT_EQ(other.code, 0);
  EXPECT_EQ(other.output, alone.output);
  expect_said(other, "did not fit (it knew ");
  const Outcome program = run({COMEX_PAGING_LOAD, "--set", "32M", "--pass", "random"});
  EXPECT_EQ(program.code, 0) << program.errors;
  expect_said(program, "did not fit (it was of another program, python3");
}

TEST_F(RunProfile, of_a_program_that_is_killed_what_there_was_is_kept) {
  constexpr int kOfHalf = 20;
  int best = 0;  // on a busy machine that is seldom what it could be
  for (int again = 0; again < 5 && best < kOfHalf; ++again) {
    std::filesystem::remove(file());
    const Outcome killed = run(chase({"20", "2", "1", "later"}));
    EXPECT_NE(killed.code, 0);
    expect_said(killed, "made: ");
    const Outcome whole = run(chase({"20", "2", "1"}));
    EXPECT_EQ(whole.code, 0);
    best = std::max(best, known(whole));
  }
  EXPECT_GE(best, kOfHalf);
}

// Each process has its own part, and children of a fork theirs.
TEST_F(RunProfile, of_several_processes_each_is_known_again) {
  constexpr int kOfBoth = 60;
  const std::string one = "/usr/bin/python3 " + folder_.file("chase.py", kChase) + " 18 2 ";
  const std::vector<std::string> both{"/bin/sh", "-c", one + "1; " + one + "2"};
  // They are short: on a busy machine the second would be over before it is woken. The shell is a third.
  const Outcome first = run(both);
  ASSERT_EQ(first.code, 0) << first.errors;
  expect_said(first, " processes");
  // Of one process alone it would know half. What comes in time is another matter, and the machine's.
  int best = 0;
  for (int again = 0; again < 5 && best < kOfBoth; ++again) {
    const Outcome later = run(both);
    EXPECT_EQ(later.output, first.output);
    best = std::max(best, known(later));
  }
  EXPECT_GE(best, kOfBoth);
}

TEST_F(RunProfile, what_cannot_be_is_refused_before_the_program_starts) {
  const std::string letter = folder_.file("letter", "Dear reader,\n");
  const auto refused = [&](const std::vector<std::string>& flags, const std::string& why) {
    std::vector<std::string> words{"run"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "/bin/echo", "started"});
    const Outcome outcome = run_comex(words, folder_.path("."));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.output, "");
    expect_said(outcome, why);
  };
  refused({"--profile", letter}, "no profile");
  std::ifstream still(letter);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(still), {}), "Dear reader,\n");
  refused({"--profile", folder_.path(".")}, "no file");
  refused({"--profile", folder_.path("not/there")}, "cannot write");
  refused({"--prefetch", "record"}, "--profile FILE");
}

TEST_F(RunProfile, a_program_that_needs_nothing_leaves_nothing) {
  const Outcome outcome = run({"/bin/true"});
  EXPECT_EQ(outcome.code, 0);
  expect_said(outcome, "not made");
  EXPECT_FALSE(std::filesystem::exists(file()));
}

}  // namespace
}  // namespace comex::test

#endif

// A memory node whose memory is changed while a program runs on it: the program never goes on with a wrong page. With
// --encrypt the node cannot even tell what it has.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "support/arena_view.h"
#include "support/node.h"
#include "support/process.h"
#include "support/proxy.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

constexpr const char* kMark = "a line that only this program writes";

// Writes to all its pages, and looks at them, when it is told to.
constexpr const char* kProgram = R"(
import os, sys
size = 40 << 20
mark = b'a line that only this program writes'
data = bytearray(size)
def write(version):
    for i in range(0, size, 4096): data[i:i + 40] = mark + (i // 4096 * 2 + version).to_bytes(4, 'little')
def wrong(version):
    return sum(data[i:i + 40] != mark + (i // 4096 * 2 + version).to_bytes(4, 'little') for i in range(0, size, 4096))
write(0)
print('ready', flush=True)
for line in sys.stdin:
    if line == 'end\n': break
    word, version = line.split()
    if word == 'write':
        write(int(version))
        print('written', flush=True)
    elif word == 'fork':
        pid = os.fork()
        if pid == 0: os._exit(1 if wrong(int(version)) else 0)
        print('child', os.waitpid(pid, 0)[1], flush=True)
    else:
        print('wrong', wrong(int(version)), flush=True)
)";

struct Case {
  const char* name;
  Over over;
  const char* flag;
};
std::string name_of(const testing::TestParamInfo<Case>& with) {
  return with.param.name;
}

class RunSeal : public testing::Test {
 protected:
  static ServerConfig enough() {
    ServerConfig config = TestNode::config();
    config.memory = 256 << 20;  // a full pool is not what this is about
    config.secret.clear();
    return config;
  }
  Process start(const std::string& url, const std::string& flag) {
    std::vector<std::string> words{COMEX_BINARY,
                                   "run",
                                   "--at-once",
                                   "--local",
                                   "16M",
                                   "--stats",
                                   stats_,
                                   "--pool",
                                   url,
                                   flag,
                                   "--",
                                   "/usr/bin/python3",
                                   folder_.file("program.py", kProgram)};
    std::erase(words, "");
    return Process(words, folder_.path("."));
  }
  [[nodiscard]] nlohmann::json stats() const {
    std::ifstream file(stats_);
    return nlohmann::json::parse(file, nullptr, false);
  }
  static void change_all(const ArenaView& arena) {
    arena.for_each_frame([](std::span<std::byte> frame) { frame[frame.size() / 3] ^= std::byte{0x20}; });
  }
  // The program looks, and finds nothing.
  void expect_stopped(Process& program, const std::string& url, const std::string& look) {
    (void)program.write_line(look);
    EXPECT_EQ(program.wait(), 125) << program.errors();
    EXPECT_EQ(program.read_line(), std::nullopt) << "nothing that it made of wrong bytes";
    const std::string errors = program.errors();
    EXPECT_NE(errors.find("a page that came back from memory node " + url + " (frame "), std::string::npos) << errors;
    EXPECT_NE(errors.find(") is not what was sent there, and there is no other copy; the program is stopped"),
              std::string::npos)
        << errors;
    EXPECT_GE(stats()["pages_wrong"], 1) << "counted";
    EXPECT_EQ(stats()["pages_mended"], 0);
  }

  TestFolder folder_;
  const std::string stats_ = folder_.path("stats.json");
  TestNode node_{Over::tcp, enough()};
  const ArenaView arena_;
};

class RunSealed : public RunSeal, public testing::WithParamInterface<Case> {
 protected:
  const std::string url_ = node_.url(GetParam().over).text();
};
// There are checksums if nothing is said.
INSTANTIATE_TEST_SUITE_P(With, RunSealed,
                         testing::Values(Case{"checksums_tcp", Over::tcp, ""}, Case{"checksums_shm", Over::shm, ""},
                                         Case{"encryption_tcp", Over::tcp, "--encrypt"},
                                         Case{"encryption_shm", Over::shm, "--encrypt"}),
                         name_of);

TEST_P(RunSealed, a_changed_page_stops_the_program) {
  auto program = start(url_, GetParam().flag);
  ASSERT_EQ(program.read_line(), "ready") << program.errors();
  EXPECT_EQ(program.ask("look 0"), "wrong 0");
  EXPECT_EQ(program.ask("fork 0"), "child 0") << "which has its parent's seals";
  change_all(arena_);
  expect_stopped(program, url_, "look 0");
}

TEST_F(RunSeal, an_older_page_stops_the_program) {
  const std::string url = node_.url(Over::tcp).text();
  auto program = start(url, "--encrypt");
  ASSERT_EQ(program.read_line(), "ready") << program.errors();
  const auto before = arena_.copy();
  ASSERT_EQ(program.ask("write 1"), "written");
  EXPECT_EQ(program.ask("look 1"), "wrong 0");
  arena_.restore(before);
  expect_stopped(program, url, "look 1");
}

// With threads, forks, moves and discards: see tests/checker.
TEST_P(RunSealed, the_checker_finds_nothing) {
  std::vector<std::string> words{"run", "--at-once", "--local", "16M", "--pool", url_, GetParam().flag, "--"};
  words.insert(words.end(), {COMEX_CHECKER, "--seed", "7", "--threads", "2", "--set", "32", "--seconds", "1"});
  std::erase(words, "");
  const Outcome outcome = run_comex(words, folder_.path("."), Millis(120'000));
  EXPECT_EQ(outcome.code, 0) << outcome.errors << outcome.output;
}

TEST_F(RunSeal, without_either_nobody_looks) {
  auto program = start(node_.url(Over::shm).text(), "--checksums=off");
  ASSERT_EQ(program.read_line(), "ready") << program.errors();
  EXPECT_GT(arena_.count_with(kMark), 1000U) << "the node can read it";
  arena_.for_each_frame([](std::span<std::byte> frame) {
    const auto at = std::string_view(reinterpret_cast<const char*>(frame.data()), frame.size()).find(kMark);
    if (at != std::string_view::npos) frame[at] ^= std::byte{1};
  });
  EXPECT_NE(program.ask("look 0"), "wrong 0") << "and write to it";
}

TEST_F(RunSeal, a_changed_page_is_taken_from_the_other_copy) {
  TestNode other(Over::tcp, enough());  // which the view of the arena does not have
  auto program = start(node_.url(Over::tcp).text() + "," + other.url(Over::tcp).text(), "--replicas=2");
  ASSERT_EQ(program.read_line(), "ready") << program.errors();
  ASSERT_EQ(program.ask("look 0"), "wrong 0");
  change_all(arena_);
  EXPECT_EQ(program.ask("look 0"), "wrong 0");
  EXPECT_EQ(program.ask("fork 0"), "child 0");
  (void)program.write_line("end");
  EXPECT_EQ(program.wait(), 0) << program.errors();
  EXPECT_NE(program.errors().find(") was not what was sent there"), std::string::npos) << program.errors();
  EXPECT_GE(stats()["pages_mended"], 1);
  EXPECT_EQ(stats()["pages_mended"], stats()["pages_wrong"]);
}

TEST_F(RunSeal, encrypted_the_node_sees_nothing) {
  auto program = start(node_.url(Over::tcp).text(), "--encrypt");
  ASSERT_EQ(program.read_line(), "ready") << program.errors();
  ASSERT_EQ(program.ask("write 1"), "written");
  ASSERT_EQ(program.ask("look 1"), "wrong 0");
  EXPECT_EQ(arena_.count_with(kMark), 0U);
}

// The network changes a page, and the node's is right.
TEST_F(RunSeal, a_page_that_was_changed_on_its_way_is_read_again) {
  std::atomic<int> changed{-1};
  RecordingProxy proxy(*node_.server().tcp_url(), [&](std::span<std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto at = text.find(kMark);
    if (changed != 0 || at == std::string_view::npos) return;
    bytes[at] ^= std::byte{1};
    changed = 1;
  });
  auto program = start(proxy.url().text(), "");
  ASSERT_EQ(program.read_line(), "ready") << program.errors();
  const auto noticed = [&] { return program.errors().find(") was not what was sent there\n") != std::string::npos; };
  // One that was brought ahead and that nobody came to use is not looked at: then another.
  for (int tries = 0; tries < 20 && !noticed(); ++tries) {
    changed = 0;
    ASSERT_EQ(program.ask("look 0"), "wrong 0");
    ASSERT_EQ(changed, 1);
  }
  EXPECT_TRUE(noticed()) << program.errors();
  EXPECT_EQ(program.ask("look 0"), "wrong 0");
  (void)program.write_line("end");
  EXPECT_EQ(program.wait(), 0) << program.errors();
  EXPECT_GE(stats()["pages_wrong"], 1);
  EXPECT_EQ(stats()["pages_mended"], stats()["pages_wrong"]);
}

}  // namespace
}  // namespace comex::test

#endif

// `comex run` before the program starts, and `comex doctor`: what is wrong is said in one line, with what to do.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "fabric/socket.h"
#include "support/node.h"
#include "support/process.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

using Json = nlohmann::json;

class RunRefusal : public testing::Test {
 protected:
  Outcome run(std::vector<std::string> flags, const std::string& program = "/bin/true") {
    flags.insert(flags.begin(), "run");
    flags.insert(flags.end(), {"--", program});
    return run_comex(flags, folder_.path("."));
  }
  static void expect(const Outcome& outcome, int code, const std::string& about) {
    EXPECT_EQ(outcome.code, code) << outcome.errors;
    ASSERT_EQ(outcome.complaints().size(), 1U) << outcome.errors;
    EXPECT_NE(outcome.complaints()[0].find(about), std::string::npos) << outcome.errors;
  }

  TestFolder folder_;
};

TEST_F(RunRefusal, a_program_that_cannot_be_run) {
  expect(run({}, "no-such-program"), 127, "no-such-program: not found");
  expect(run({}, folder_.file("text", "echo\n", 0755)), 126, "#!");
  expect(run({}, folder_.file("plain", "#!/bin/sh\n", 0644)), 126, "not executable");
  expect(run({}, folder_.path(".")), 126, "folder");
}

TEST_F(RunRefusal, the_programs_arguments_are_its_own) {
  const std::vector<std::string> words{"%s|", "[2,10]", "[]", "[", "", "{a,b}", "--", "-x", "--pool", "a b", "%s"};
  for (const char* const mark : {"--", ""}) {
    std::vector<std::string> line{"run"};
    if (*mark != 0) line.emplace_back(mark);
    line.emplace_back("/usr/bin/printf");
    line.insert(line.end(), words.begin(), words.end());
    EXPECT_EQ(run_comex(line, folder_.path(".")).output, "[2,10]|[]|[||{a,b}|--|-x|--pool|a b|%s|");
  }
}

TEST_F(RunRefusal, a_program_that_the_runtime_cannot_be_loaded_into) {
  const std::string loader_cache = "/sbin/ldconfig";  // statically linked, on Debian
  if (!std::filesystem::exists(loader_cache)) GTEST_SKIP() << "no " << loader_cache;
  expect(run({}, loader_cache), 2, "statically linked");
}

// It is not told by a signal. Who may raise the limit is not concerned.
TEST_F(RunRefusal, a_limit_of_the_size_of_files) {
  Process process({"/bin/sh", "-c", "ulimit -f 1000; exec " COMEX_BINARY " run /bin/true"}, folder_.path("."));
  const auto code = process.wait();
  EXPECT_TRUE(code == 0 || code == 2) << *code;
  EXPECT_EQ(process.errors().find("raise ulimit -f") != std::string::npos, code == 2) << process.errors();
}

TEST_F(RunRefusal, a_limit_of_addresses) {
  Process process({"/bin/sh", "-c", "ulimit -v 8000000; exec " COMEX_BINARY " run /bin/true"}, folder_.path("."));
  EXPECT_EQ(process.wait(), 2);
  EXPECT_NE(process.errors().find("ulimit -v"), std::string::npos) << process.errors();
}

TEST_F(RunRefusal, an_option_that_there_is_not) {
  expect(run({"--bogus"}), 2, "unknown option '--bogus'; see `comex run --help`");
  expect(run({"--local", "64M", "--lokal=2"}), 2, "unknown option '--lokal=2'");
}

TEST_F(RunRefusal, a_prefetcher_that_there_is_not) {
  expect(run({"--prefetch", "fortune-teller"}), 2,
         "--prefetch: 'fortune-teller' is no prefetcher; use none, next, stride, readahead, leap, auto");
}

TEST_F(RunRefusal, an_eviction_policy_that_there_is_not) {
  expect(run({"--evict", "tenant"}), 2, "--evict: 'tenant' is no eviction policy; use fifo, clock, 2q");
}

TEST_F(RunRefusal, sizes_that_make_no_sense) {
  expect(run({"--local", "15M"}), 2, "the least is 16.0 MiB");
  expect(run({"--local", "lots"}), 2, "--local");
  expect(run({"--faults", "pigeon"}), 2, "use inline or message");
  expect(run({"--pool", "ftp://x"}), 2, "--pool");
}

TEST_F(RunRefusal, a_pool_of_tls_nodes) {
  expect(run({"--pool", "tls://127.0.0.1:1"}), 2, "tcp://");
}

TEST_F(RunRefusal, a_pool_that_nobody_serves) {
  expect(run({"--pool", "tcp://127.0.0.1:1"}), 2, "tcp://127.0.0.1:1");
  expect(run({"--pool", "unix:///does/not/exist"}), 2, "/does/not/exist");
}

TEST_F(RunRefusal, a_pool_that_does_not_answer) {
  const auto silent = listen_tcp("127.0.0.1:0");
  ASSERT_TRUE(silent);
  expect(run({"--pool", "tcp://127.0.0.1:" + std::to_string(silent->port)}), 2, std::to_string(silent->port));
}

TEST_F(RunRefusal, a_pool_with_another_secret) {
  const auto secret = folder_.file("secret", "0123456789abcdef0123456789abcdef\n");
  const auto other = folder_.file("other", "0123456789abcdef0123456789abcdee\n");
  const auto node =
      start_node({"--listen", "127.0.0.1:0", "--socket", "none", "--secret-file", secret}, folder_.path("."));
  expect(run({"--pool", node.tcp->text(), "--secret-file", other}), 2, "secret");
  expect(run({"--pool", node.tcp->text(), "--secret-file", folder_.path("none")}), 2, "secret");
}

TEST_F(RunRefusal, a_pool_without_memory) {
  const TestNode node;
  const auto greedy = node.connect(Over::shm);
  const auto all = granted(*greedy, node.free_frames());
  expect(run({"--pool", node.url(Over::shm).text()}), 2, "no memory left");
}

// A page would be twice on one node, and lost with it.
TEST_F(RunRefusal, copies_on_a_node_that_is_named_twice) {
  const TestNode node;
  Url shm = node.url(Over::shm);
  Url tcp = node.url(Over::tcp);
  const auto secret = folder_.file("secret", std::string(TestNode::kSecret) + "\n");
  const std::string both = shm.text() + " and " + tcp.text() + " are one";
  const std::vector<std::string> pool{"--pool", shm.text() + "," + tcp.text(), "--secret-file", secret};
  const auto with = [&](const std::string& option, const std::string& value) {
    auto flags = pool;
    flags.insert(flags.end(), {option, value});
    return run(flags);
  };
  expect(with("--replicas", "2"), 2, both);
  expect(with("--replicas", "2"), 2, "--replicas 2 needs as many memory nodes that do not fail together, and 1 can");
  EXPECT_EQ(with("--replicas", "1").code, 0) << "one copy bears it";
  const TestNode other;
  const std::string three = pool[1] + "," + other.url(Over::tcp).text();
  expect(run({"--pool", three, "--secret-file", secret, "--code", "2+1"}), 2, both);
  EXPECT_EQ(run({"--pool", three, "--secret-file", secret, "--replicas", "2"}).code, 0);
}

TEST_F(RunRefusal, settings_come_from_the_configuration_too) {
  (void)folder_.file(".config/comex/comex.toml", "[run]\nlocal = \"1M\"\n");
  expect(run({}), 2, "--local 1.00 MiB");
  EXPECT_EQ(run({"--local", "16M"}).code, 0) << "flags win";
}

TEST_F(RunRefusal, local_auto_says_what_it_is) {
  const Outcome outcome = run({"--local", "auto", "-v"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find("of the program stay here"), std::string::npos) << outcome.errors;
}

TEST_F(RunRefusal, a_user_without_rights_can_run_programs) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  std::filesystem::permissions(folder_.path("."), std::filesystem::perms::all);
  Process process({"/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", COMEX_BINARY, "run",
                   "--local", "16M", "--", COMEX_PAGING_LOAD, "--set", "32M", "--pass", "random-write"},
                  folder_.path("."));
  const std::string output = process.read_all();
  EXPECT_EQ(process.wait(), 0) << process.errors();
  EXPECT_NE(output.find("\"pages_wrong\":0"), std::string::npos) << process.errors();
}

TEST_F(RunRefusal, doctor_finds_this_machine_ready) {
  const Outcome outcome = run_comex({"doctor", "--json"}, folder_.path("."));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  const Json json = Json::parse(outcome.output);
  EXPECT_TRUE(json["ready"]);
  for (const Json& check : json["checks"]) {
    EXPECT_TRUE(check["state"] == "ok" || !check["what"].get<std::string>().empty()) << check;
  }
  EXPECT_NE(run_comex({"doctor"}, folder_.path(".")).output.find("ok       userfaultfd"), std::string::npos);
}

TEST_F(RunRefusal, doctor_says_that_a_node_is_to_serve_by_rdma_and_cannot) {
  Process process({"/usr/bin/env", "COMEX_RDMA=10.0.0.6:7171", COMEX_BINARY, "doctor", "--json"}, folder_.path("."));
  const std::string output = process.read_all();
  EXPECT_EQ(process.wait(), 0) << "programs can run here\n" << output;
  for (const Json& check : Json::parse(output)["checks"]) {
    if (check["check"] != "rdma") continue;  // there is a device, or all is well
    EXPECT_EQ(check["state"], "warning") << check;
    EXPECT_NE(check["remedy"].get<std::string>().find("[serve]"), std::string::npos) << check;
  }
}

TEST_F(RunRefusal, doctor_says_what_is_wrong_with_a_pool) {
  const TestNode node;
  const std::string up = node.url(Over::shm).text();
  const std::string down = "tcp://127.0.0.1:1";
  const auto states = [&](const std::string& pool, int code) {
    const Outcome outcome = run_comex({"doctor", "--json", "--pool", pool}, folder_.path("."));
    EXPECT_EQ(outcome.code, code) << outcome.output;
    std::string found;
    const Json json = Json::parse(outcome.output);
    for (const Json& check : json["checks"]) {
      if (check["check"].get<std::string>().starts_with("node ")) found += check["state"].get<std::string>() + " ";
    }
    return found;
  };
  EXPECT_EQ(states(up, 0), "ok ");
  EXPECT_EQ(states(up + "," + down, 0), "ok warning ");
  EXPECT_EQ(states(down, 2), "missing ");
  EXPECT_EQ(states("tls://127.0.0.1:1", 2), "missing ");
}

}  // namespace
}  // namespace comex::test

#endif

// `comex serve`, `comex status` and `comex drain` as a user meets them: what they print, and how they end.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "support/node.h"
#include "support/pages.h"
#include "support/process.h"

namespace comex::test {
namespace {

using Json = nlohmann::json;

class Command : public testing::Test {
 protected:
  Outcome run(const std::vector<std::string>& arguments) { return run_comex(arguments, folder_.path(".")); }
  // One line on stderr that says `about`, nothing on stdout, and that exit code.
  static void expect_refusal(const Outcome& outcome, int code, const std::string& about) {
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(outcome.output, "");
    ASSERT_EQ(outcome.complaints().size(), 1U) << outcome.errors;
    EXPECT_NE(outcome.complaints()[0].find(about), std::string::npos) << outcome.errors;
  }

  TestFolder folder_;
};

TEST_F(Command, what_is_not_known_is_named) {
  expect_refusal(run({"status", "--jsn"}), 2, "unknown option '--jsn'; see `comex status --help`");
  expect_refusal(run({"status", "all"}), 2, "'all' was not expected");
  expect_refusal(run({"statsu"}), 2, "unknown command 'statsu'");
}

// --- serve ---

TEST_F(Command, serve_says_where_it_serves) {
  const auto secret = folder_.file("secret", "0123456789abcdef0123456789abcdef\n");
  auto node = start_node(
      {"--listen", "127.0.0.1:0", "--socket", folder_.path("node.sock"), "--secret-file", secret, "--nid", "42"},
      folder_.path("."));
  EXPECT_NE(node.ready.find("16.0 MiB"), std::string::npos) << node.ready;
  EXPECT_NE(node.ready.find("node 42"), std::string::npos) << node.ready;
  ASSERT_TRUE(node.tcp);
  ASSERT_TRUE(node.shm);
  EXPECT_NE(node.tcp->port, 0);
  LinkOptions options;
  EXPECT_EQ(comex::connect(*node.tcp, options).error().code, Errc::denied) << "without the secret";
  options.secret = "0123456789abcdef0123456789abcdef";
  const auto link = comex::connect(*node.tcp, options);
  ASSERT_TRUE(link) << link.error().message;
  EXPECT_EQ((*link)->node().nid, NodeId{42});
  EXPECT_TRUE(comex::connect(*node.shm, LinkOptions{})) << "the Unix socket asks for no secret";
}

TEST_F(Command, serve_refuses_more_memory_than_there_is) {
  for (const std::string memory : {"100T", "17T", "9000000T"}) {
    const auto outcome = run({"serve", "--memory", memory, "--listen", "127.0.0.1:0", "--socket", "none"});
    ASSERT_TRUE(outcome.code);
    EXPECT_TRUE(*outcome.code == 1 || *outcome.code == 2) << memory;
    ASSERT_EQ(outcome.complaints().size(), 1U) << outcome.errors;
    EXPECT_NE(outcome.complaints()[0].find("memory"), std::string::npos) << outcome.errors;
  }
}

TEST_F(Command, serve_refuses_memory_that_makes_no_sense) {
  for (const std::string memory : {"0", "-1", "1K", "lots", "", "1e3", "4GG"}) {
    const auto outcome = run({"serve", "--memory=" + memory, "--listen", "127.0.0.1:0", "--socket", "none"});
    EXPECT_EQ(outcome.code, 2) << memory;
    EXPECT_EQ(outcome.complaints().size(), 1U) << outcome.errors;
  }
}

TEST_F(Command, serve_refuses_a_network_without_a_secret) {
  for (const std::string listen : {"0.0.0.0:0", "[::]:0", ":0"}) {
    expect_refusal(run({"serve", "--memory", "16M", "--listen", listen, "--socket", "none"}), 2, "--secret-file");
  }
}

TEST_F(Command, serve_refuses_a_bad_secret_file) {
  const std::vector<std::string> serve{"serve", "--memory", "16M", "--listen", "127.0.0.1:0", "--socket", "none"};
  const auto with = [&](const std::string& file) {
    auto arguments = serve;
    arguments.insert(arguments.end(), {"--secret-file", file});
    return run(arguments);
  };
  expect_refusal(with(folder_.path("missing")), 2, "missing");
  expect_refusal(with(folder_.file("short", "short")), 2, "short");
  expect_refusal(with(folder_.file("open", "0123456789abcdef0123456789abcdef", 0644)), 2, "chmod");
}

TEST_F(Command, serve_refuses_addresses_that_make_no_sense) {
  for (const std::string listen : {"nonsense", "127.0.0.1", "127.0.0.1:99999", "300.1.1.1:7171", "127.0.0.1:port"}) {
    const auto outcome = run({"serve", "--memory", "16M", "--listen", listen, "--socket", "none"});
    EXPECT_EQ(outcome.code, 2) << listen << ": " << outcome.errors;
    EXPECT_EQ(outcome.complaints().size(), 1U) << outcome.errors;
  }
  const auto outcome = run({"serve", "--memory", "16M", "--listen", "none", "--socket", "none"});
  EXPECT_EQ(outcome.code, 2);
  const auto too_long =
      run({"serve", "--memory", "16M", "--listen", "none", "--socket", folder_.path(std::string(120, 'x'))});
  EXPECT_EQ(too_long.code, 2) << too_long.errors;
}

TEST_F(Command, serve_can_be_stopped_while_it_starts) {
  Process node({COMEX_BINARY, "serve", "--memory", "1G", "--no-lock", "--no-huge-pages", "--listen", "none", "--socket",
                folder_.path("node.sock")},
               folder_.path("."));
  // The socket is there first, the memory takes its time.
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(folder_.path("node.sock")); }));
  node.signal(SIGTERM);
  EXPECT_EQ(node.wait(), 0) << node.errors();
}

// What a node has in memory, as it says; SIZE_MAX if it does not answer.
std::uint64_t bytes_present(const Url& url) {
  LinkOptions options;
  options.observe = true;
  const auto link = comex::connect(url, options);
  const auto status = link ? (*link)->status() : Expected<wire::StatusReply>(link.error());
  return status ? std::uint64_t{status->present} << kPageShift : SIZE_MAX;
}

TEST_F(Command, serve_reads_how_much_to_lend_again) {
  std::filesystem::create_directories(folder_.path(".config/comex"));
  const auto configure = [&](const std::string& memory) {
    (void)folder_.file(".config/comex/comex.toml", "[serve]\nmemory = \"" + memory + "\"\n");
  };
  configure("32M");
  const std::string socket = folder_.path("node.sock");
  // In a session of its own it has no terminal, as under a service manager.
  Process node({"/usr/bin/setsid", COMEX_BINARY, "serve", "--no-lock", "--no-huge-pages", "--listen", "none",
                "--socket", socket},
               folder_.path("."));
  ASSERT_TRUE(node.read_line()) << node.errors();
  const Url url = *parse_url("unix://" + socket);
  for (const int megabytes : {8, 24, 32}) {
    configure(std::to_string(megabytes) + "M");
    node.signal(SIGHUP);
    EXPECT_TRUE(wait_until([&] { return bytes_present(url) == std::uint64_t(megabytes) << 20; })) << node.errors();
  }
  configure("nonsense");
  node.signal(SIGHUP);
  EXPECT_TRUE(wait_until([&] { return node.errors().find("nonsense") != std::string::npos; }));
  EXPECT_EQ(bytes_present(url), 32U << 20);
  node.signal(SIGTERM);
  EXPECT_EQ(node.wait(), 0) << node.errors();
}

TEST_F(Command, serve_gives_memory_back_to_a_host_that_has_too_little) {
  const auto node =
      start_node({"--listen", "none", "--socket", folder_.path("node.sock"), "--reserve", "900T"}, folder_.path("."));
  EXPECT_TRUE(wait_until([&] { return bytes_present(*node.shm) == 0; })) << node.process.errors();
}

// --- drain ---

TEST_F(Command, drain_of_what_nobody_uses_and_back) {
  TestNode node;
  const std::string url = node.url(Over::shm).text();
  const auto drained = run({"drain", url});
  EXPECT_EQ(drained.code, 0) << drained.errors;
  EXPECT_NE(drained.output.find("is empty"), std::string::npos) << drained.output;
  EXPECT_EQ(bytes_present(node.url(Over::shm)), 0U);
  EXPECT_EQ(node.connect(Over::shm)->grant(1, 0).error().code, Errc::no_memory);
  EXPECT_EQ(run({"drain", "--undo", "7", "--pool", url}).code, 0) << "by its id";
  EXPECT_TRUE(wait_until([&] { return node.connect(Over::shm)->grant(1, 0).has_value(); }));
}

TEST_F(Command, drain_of_what_stays_says_so) {
  TestNode node;
  const auto link = node.connect(Over::shm);
  granted(*link, 512, 9);
  expect_refusal(run({"drain", node.url(Over::shm).text(), "--timeout", "300ms"}), 1, "2.00 MiB of 1 client(s)");
  expect_refusal(run({"drain", "nonsense"}), 2, "tcp://");
  expect_refusal(run({"drain", "99", "--pool", node.url(Over::shm).text()}), 2, "no node");
  expect_refusal(run({"drain", node.url(Over::shm).text(), "--timeout", "soon"}), 2, "soon");
  EXPECT_EQ(run({"drain"}).code, 2);
}

// --- status ---

TEST_F(Command, status_of_live_and_dead_nodes_as_json) {
  TestNode live;
  const auto link = live.connect(Over::shm);
  granted(*link, 512, 9);
  std::string dead;
  {
    TestNode gone;
    dead = gone.url(Over::tcp).text();
  }
  const auto secret = folder_.file("secret", TestNode::kSecret);
  const std::string pool = live.url(Over::shm).text() + "," + live.url(Over::tcp).text() + "," + dead;
  const auto outcome = run({"status", "--json", "--pool", pool, "--secret-file", secret});
  EXPECT_EQ(outcome.code, 1) << "one node did not answer";
  const auto json = Json::parse(outcome.output, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << outcome.output;
  ASSERT_EQ(json["nodes"].size(), 3U);
  for (int i = 0; i < 2; ++i) {
    const auto& node = json["nodes"][i];
    EXPECT_EQ(node["state"], "up");
    EXPECT_EQ(node["nid"], 7);
    EXPECT_EQ(node["size_bytes"], TestNode::kMemory);
    EXPECT_EQ(node["used_bytes"], 512 * kPageSize);
    EXPECT_EQ(node["free_bytes"], TestNode::kMemory - 512 * kPageSize);
    EXPECT_EQ(node["largest_free_extent_bytes"], 512 * kPageSize);
    EXPECT_EQ(node["client_count"], 1);
    EXPECT_GT(node["round_trip_us"].get<double>(), 0.0);
    ASSERT_EQ(node["clients"].size(), 1U);
    EXPECT_EQ(node["clients"][0]["name"], "test");
    EXPECT_EQ(node["clients"][0]["bytes"], 512 * kPageSize);
  }
  EXPECT_NE(json["nodes"][2]["state"], "up");
  EXPECT_FALSE(json["nodes"][2]["error"].get<std::string>().empty());
  EXPECT_EQ(live.clients(), 1U) << "looking takes no client's place";
}

TEST_F(Command, status_for_people_has_a_line_for_each_node) {
  TestNode node;
  const auto alive = run({"status", "--pool", node.url(Over::shm).text()});
  EXPECT_EQ(alive.code, 0) << alive.errors;
  for (const std::string word : {"NODE", "SIZE", "USED", "FREE", "LARGEST", "CLIENTS", "ROUND TRIP", "STATE", "up"}) {
    EXPECT_NE(alive.output.find(word), std::string::npos) << alive.output;
  }
  const auto dead = run({"status", "--pool", "unix://" + folder_.path("nobody")});
  EXPECT_EQ(dead.code, 1);
  EXPECT_NE(dead.output.find("unreachable"), std::string::npos) << dead.output;
  EXPECT_NE(dead.output.find("comex serve"), std::string::npos) << "what to do: " << dead.output;
}

TEST_F(Command, status_with_the_wrong_secret_says_so) {
  TestNode node;
  const auto secret = folder_.file("secret", "not the secret of that node");
  const auto outcome = run({"status", "--pool", node.url(Over::tcp).text(), "--secret-file", secret});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.output.find("secret"), std::string::npos) << outcome.output;
}

TEST_F(Command, status_of_a_node_that_hangs_does_not_hang) {
  auto node = start_node({"--listen", "none", "--socket", folder_.path("node.sock")}, folder_.path("."));
  ASSERT_TRUE(node.process.stop());
  const auto start = Clock::now();
  const auto outcome = run({"status", "--pool", node.shm->text()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_LT(Clock::now() - start, Millis(8000));
}

TEST_F(Command, status_survives_names_that_are_no_text) {
  TestNode node;
  auto options = node.options(Over::shm);
  options.name = "\xff\xfe\x01 \"quoted\"\n";
  const auto link = node.connect(Over::shm, options);
  const auto outcome = run({"status", "--json", "--pool", node.url(Over::shm).text()});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_FALSE(Json::parse(outcome.output, nullptr, false).is_discarded()) << outcome.output;
}

TEST_F(Command, status_without_a_pool_is_bad_usage) {
  expect_refusal(run({"status"}), 2, "--pool");
  expect_refusal(run({"status", "--pool", "nonsense"}), 2, "tcp://HOST:7171");
}

}  // namespace
}  // namespace comex::test

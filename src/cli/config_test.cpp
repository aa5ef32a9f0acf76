#include "cli/config.h"

#include <gtest/gtest.h>

#include <map>

#include "cli/test_folder.h"

namespace comex {
namespace {

class ConfigTest : public ::testing::Test {
 protected:
  Expected<Config> load() {
    ConfigSources sources;
    sources.files = files_;
    sources.variable = [this](const char* name) -> const char* {
      const auto found = variables_.find(name);
      return found == variables_.end() ? nullptr : found->second.c_str();
    };
    return load_config(sources);
  }

  // The error of a configuration that holds only `text`, with the folder's name taken out.
  std::string error_of(std::string_view text) {
    files_ = {folder_.file("comex.toml", text)};
    const auto config = load();
    if (config) return "no error";
    std::string message = config.error().message;
    if (const auto at = message.find(folder_.path("")); at != std::string::npos)
      message.erase(at, folder_.path("").size());
    EXPECT_EQ(message.find('\n'), std::string::npos) << "one line: " << message;
    return message;
  }

  TestFolder folder_;
  std::vector<std::string> files_;
  std::map<std::string, std::string> variables_;
};

TEST_F(ConfigTest, nothingConfigured_defaults) {
  files_ = {folder_.path("none.toml"), folder_.path("no/folder/comex.toml")};
  const auto config = load();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->pool.nodes.empty());
  EXPECT_EQ(config->serve.memory, std::uint64_t{4} << 30);
  EXPECT_FALSE(config->serve.listen);
  EXPECT_EQ(config->serve.socket_mode, 0600U);
  EXPECT_EQ(config->serve.lease, Millis(10'000));
  EXPECT_TRUE(config->serve.lock);
}

TEST_F(ConfigTest, file_everyKey) {
  files_ = {folder_.file("comex.toml", R"(
[pool]
nodes = ["tcp://10.0.0.5:7171", "unix:///run/comex/comex.sock"]
secret_file = "/s"
tls_ca = "/ca"
tls_cert = "/cert"
tls_key = "/key"
nid = 17
[serve]
memory = "1.5G"
listen = "10.0.0.6:7171"
socket = "/run/x.sock"
socket_mode = "0660"
secret_file = "/s2"
tls_cert = "/c2"
tls_key = "/k2"
tls_client_ca = "/ca2"
lease = "2m"
nid = 65535
lock = false
huge_pages = false
[run]
local = "64M"
hard = "auto"
stats = "/stats.json"
profile = "/profile"
summary = true
faults = "message"
prefetch = "leap"
evict = "clock"
checksums = "off"
encrypt = true
replicas = 2
code = "4+2"
)")};
  const auto config = load();
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->pool.nodes.size(), 2U);
  EXPECT_EQ(config->pool.nodes[0].text(), "tcp://10.0.0.5:7171");
  EXPECT_EQ(config->pool.nodes[1].text(), "unix:///run/comex/comex.sock");
  EXPECT_EQ(config->pool.secret_file, "/s");
  EXPECT_EQ(config->pool.tls_ca, "/ca");
  EXPECT_EQ(config->pool.tls_cert, "/cert");
  EXPECT_EQ(config->pool.tls_key, "/key");
  EXPECT_EQ(config->pool.nid, 17);
  EXPECT_EQ(config->serve.memory, std::uint64_t{3} << 29);
  EXPECT_EQ(config->serve.listen, "10.0.0.6:7171");
  EXPECT_EQ(config->serve.socket, "/run/x.sock");
  EXPECT_EQ(config->serve.socket_mode, 0660U);
  EXPECT_EQ(config->serve.secret_file, "/s2");
  EXPECT_EQ(config->serve.tls_cert, "/c2");
  EXPECT_EQ(config->serve.tls_key, "/k2");
  EXPECT_EQ(config->serve.tls_client_ca, "/ca2");
  EXPECT_EQ(config->serve.lease, Millis(120'000));
  EXPECT_EQ(config->serve.nid, 65535);
  EXPECT_FALSE(config->serve.lock);
  EXPECT_FALSE(config->serve.huge_pages);
  EXPECT_EQ(config->run.local, std::uint64_t{64} << 20);
  EXPECT_FALSE(config->run.hard);
  EXPECT_EQ(config->run.stats, "/stats.json");
  EXPECT_EQ(config->run.profile, "/profile");
  EXPECT_TRUE(config->run.summary);
  EXPECT_EQ(config->run.faults, Delivery::message);
  EXPECT_EQ(config->run.prefetch, Prefetch::leap);
  EXPECT_EQ(config->run.evict, Evict::clock);
  EXPECT_FALSE(config->run.checksums);
  EXPECT_TRUE(config->run.encrypt);
  EXPECT_EQ(config->run.replicas, 2U);
  EXPECT_EQ(config->run.code, (Code{4, 2}));
}

TEST_F(ConfigTest, laterWins_fileThenFileThenVariableThenFlag) {
  files_ = {folder_.file("system.toml", "[serve]\nmemory = \"1G\"\nlease = \"1s\"\nnid = 1\nlock = false\n"),
            folder_.file("user.toml", "[serve]\nmemory = \"2G\"\nlease = \"2s\"\nnid = 2\n")};
  variables_ = {{"COMEX_MEMORY", "3G"}, {"COMEX_NID", "3"}, {"COMEX_LEASE", ""}};
  auto config = load();
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_TRUE(set_config(*config, "serve.memory", "4G", "--memory"));
  EXPECT_EQ(config->serve.memory, std::uint64_t{4} << 30) << "the flag";
  EXPECT_EQ(config->serve.nid, 3) << "the variable";
  EXPECT_EQ(config->pool.nid, 3) << "one variable, both sections";
  EXPECT_EQ(config->serve.lease, Millis(2'000)) << "the user's file: an empty variable is none";
  EXPECT_FALSE(config->serve.lock) << "the system's file";
}

TEST_F(ConfigTest, nodes_laterListReplaces) {
  files_ = {folder_.file("comex.toml", "[pool]\nnodes = [\"tcp://a:1\", \"tcp://b:2\"]\n")};
  variables_ = {{"COMEX_POOL", "tcp://c:3,tls://d"}};
  const auto config = load();
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->pool.nodes.size(), 2U);
  EXPECT_EQ(config->pool.nodes[0].text(), "tcp://c:3");
  EXPECT_EQ(config->pool.nodes[1].text(), "tls://d:7171");
}

TEST_F(ConfigTest, special_autoAndNone) {
  variables_ = {{"COMEX_MEMORY", "auto"}, {"COMEX_LISTEN", "none"}, {"COMEX_SOCKET", "none"}};
  const auto config = load();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->serve.memory);
  EXPECT_EQ(config->serve.listen, "");
  EXPECT_EQ(config->serve.socket, "");
}

TEST_F(ConfigTest, file_errorsNameFileLineAndKey) {
  EXPECT_EQ(error_of("[serve]\n\nmemroy = \"4G\"\n")
                .rfind("comex.toml:3: unknown key 'serve.memroy'; [serve] has memory, ", 0),
            0U);
  EXPECT_EQ(error_of("[server]\n"), "comex.toml:1: unknown section 'server'; there are [pool], [serve] and [run]");
  EXPECT_EQ(error_of("memory = \"4G\"\n"), "comex.toml:1: unknown key 'memory'; there are [pool], [serve] and [run]");
  EXPECT_EQ(error_of("pool = 4\n"), "comex.toml:1: 'pool' must be a section: write [pool] on a line of its own");
  EXPECT_EQ(error_of("[serve]\nmemory = 4\n"), "comex.toml:2: serve.memory must be a string, as in memory = \"4G\"");
  EXPECT_EQ(error_of("[serve]\nnid = \"4\"\n"), "comex.toml:2: serve.nid must be a number, as in nid = 17");
  EXPECT_EQ(error_of("[serve]\nlock = 1\n"), "comex.toml:2: serve.lock must be true or false, as in lock = true");
  EXPECT_EQ(error_of("[pool]\nnodes = \"tcp://a:1\"\n"),
            "comex.toml:2: pool.nodes must be a list of strings, as in nodes = [\"tcp://10.0.0.5:7171\"]");
  EXPECT_EQ(error_of("[pool]\nnodes = [1]\n").rfind("comex.toml:2: pool.nodes must be", 0), 0U);
  EXPECT_EQ(error_of("[pool]\nnodes = [\"10.0.0.5\"]\n").rfind("comex.toml:2: pool.nodes: '10.0.0.5' is not", 0), 0U);
  EXPECT_EQ(
      error_of("[pool]\nsecret_file = \"secret\"\n").rfind("comex.toml:2: pool.secret_file: 'secret' must be an", 0),
      0U);
  EXPECT_EQ(error_of("[serve]\nlease = \"10\"\n").rfind("comex.toml:2: serve.lease: '10' has no unit", 0), 0U);
  EXPECT_EQ(error_of("[serve]\nlease = \"1ms\"\n").rfind("comex.toml:2: serve.lease: '1ms' is out of range", 0), 0U);
  EXPECT_EQ(error_of("[serve]\nsocket_mode = \"0999\"\n").rfind("comex.toml:2: serve.socket_mode: '0999' is not", 0),
            0U);
  EXPECT_EQ(error_of("[serve]\nsocket = \"\"\n").rfind("comex.toml:2: serve.socket: is empty", 0), 0U);
  EXPECT_EQ(error_of("[serve]\nnid = 0\n").rfind("comex.toml:2: serve.nid: '0' is not a node id", 0), 0U);
  EXPECT_EQ(error_of("[serve]\nnid = 65536\n").rfind("comex.toml:2: serve.nid: '65536' is not a node id", 0), 0U);
  EXPECT_EQ(error_of("[serve]\nmemory = \"0\"\n").rfind("comex.toml:2: serve.memory: must be more than 0", 0), 0U);
  EXPECT_EQ(error_of("[serve\n").rfind("comex.toml:1: ", 0), 0U) << "not TOML at all";
  EXPECT_EQ(error_of("[serve]\nnid = 1\nnid = 2\n").rfind("comex.toml:3: ", 0), 0U) << "twice";
}

TEST_F(ConfigTest, file_thatCannotBeRead) {
  files_ = {folder_.path("")};  // a folder
  const auto config = load();
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find(folder_.path("")), std::string::npos);
}

TEST_F(ConfigTest, variable_errorsNameTheVariable) {
  variables_ = {{"COMEX_MEMORY", "lots"}};
  const auto config = load();
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().message.rfind("COMEX_MEMORY: 'lots' is not a size", 0), 0U) << config.error().message;
}

TEST_F(ConfigTest, flag_errorsNameTheFlag) {
  Config config;
  const auto done = set_config(config, "pool.nodes", "ftp://x", "--pool");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::invalid);
  EXPECT_EQ(done.error().message.rfind("--pool: 'ftp://x'", 0), 0U) << done.error().message;
}

// The example that is installed must be one that is accepted, as it is and with every key switched on.
TEST_F(ConfigTest, example_isAccepted) {
  std::ifstream example(COMEX_EXAMPLE_CONFIG);
  ASSERT_TRUE(example) << COMEX_EXAMPLE_CONFIG;
  std::string switched_on;
  for (std::string line; std::getline(example, line);) {
    // Commented keys are "#key = value"; prose is "# words".
    const bool key = line.size() > 1 && line[0] == '#' && line[1] != ' ';
    switched_on += (key ? line.substr(1) : line) + "\n";
  }
  files_ = {COMEX_EXAMPLE_CONFIG};
  auto config = load();
  EXPECT_TRUE(config) << config.error().message;
  files_ = {folder_.file("comex.toml", switched_on)};
  config = load();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->pool.nodes.empty());
  EXPECT_FALSE(config->serve.secret_file.empty());
}

}  // namespace
}  // namespace comex

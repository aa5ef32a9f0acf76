#include "cli/serve_plan.h"

#include <gtest/gtest.h>

#include "cli/test_folder.h"

namespace comex {
namespace {

class ServePlanTest : public ::testing::Test {
 protected:
  [[nodiscard]] Expected<ServerConfig> plan() const { return plan_serve(settings_, host_); }

  // A secret, and the settings that name it.
  void with_secret() { settings_.secret_file = folder_.file("secret", "0123456789abcdef"); }

  TestFolder folder_;
  ServeSettings settings_;
  ServeHost host_{.root = false, .runtime_dir = "/run/user/1000", .nid = 1234};
};

TEST_F(ServePlanTest, defaults_ofAUser) {
  const auto config = plan();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->memory, std::uint64_t{4} << 30);
  EXPECT_EQ(config->listen, "127.0.0.1:7171");
  EXPECT_EQ(config->socket, "/run/user/1000/comex.sock");
  EXPECT_EQ(config->nid, NodeId{1234});
  EXPECT_EQ(config->secret, "");
}

TEST_F(ServePlanTest, defaults_ofRoot) {
  host_.root = true;
  EXPECT_EQ(plan()->socket, "/run/comex/comex.sock");
}

TEST_F(ServePlanTest, defaults_withoutARuntimeFolderThereIsNoSocket) {
  host_.runtime_dir.clear();
  EXPECT_EQ(plan()->socket, "");
  settings_.listen = "";
  const auto config = plan();
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("--socket"), std::string::npos);
}

TEST_F(ServePlanTest, socket_relativePathIsMadeWhole) {
  settings_.socket = "node.sock";
  EXPECT_EQ(plan()->socket, (std::filesystem::current_path() / "node.sock").string());
}

TEST_F(ServePlanTest, listen_withASecretIsOnAllAddresses) {
  with_secret();
  const auto config = plan();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->listen, "0.0.0.0:7171");
  EXPECT_EQ(config->secret, "0123456789abcdef");
}

TEST_F(ServePlanTest, listen_beyondLoopbackNeedsAuthentication) {
  for (const char* address : {"0.0.0.0:7171", ":7171", "10.0.0.6:0", "[::]:7171", "[fe80::1]:7171", "myhost:7171",
                              "128.0.0.1:7171", "localhost.evil.example:7171"}) {
    settings_.listen = address;
    const auto config = plan();
    ASSERT_FALSE(config) << address;
    EXPECT_EQ(config.error().code, Errc::denied);
    EXPECT_NE(config.error().message.find("--secret-file"), std::string::npos);
  }
  with_secret();
  EXPECT_TRUE(plan());
}

TEST_F(ServePlanTest, rdma_needsASecret) {
  settings_.rdma = "10.0.0.6:7171";
  const auto refused = plan();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("--secret-file"), std::string::npos);
  with_secret();
  const auto config = plan();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->rdma, "10.0.0.6:7171");
  settings_.rdma = "nonsense";
  EXPECT_FALSE(plan());
}

TEST_F(ServePlanTest, listen_loopbackDoesNot) {
  for (const char* address : {"127.0.0.1:0", "127.8.9.1:7171", "[::1]:7171", "localhost:7171"}) {
    settings_.listen = address;
    EXPECT_TRUE(plan()) << address;
  }
}

TEST_F(ServePlanTest, listen_malformed) {
  for (const char* address : {"127.0.0.1", "7171", "::1:7171", "127.0.0.1:http", "127.0.0.1:70000"}) {
    settings_.listen = address;
    const auto config = plan();
    ASSERT_FALSE(config) << address;
    EXPECT_EQ(config.error().message.rfind("--listen: ", 0), 0U);
  }
}

TEST_F(ServePlanTest, tls_certificateAndKeyGoTogether) {
  settings_.tls_cert = "/cert";
  EXPECT_FALSE(plan());
  settings_.tls_key = "/key";
  EXPECT_TRUE(plan());
  settings_.listen = "0.0.0.0:7171";
  EXPECT_FALSE(plan()) << "TLS alone does not say who the client is";
  settings_.tls_client_ca = "/ca";
  EXPECT_TRUE(plan());
  settings_.tls_cert.clear();
  settings_.tls_key.clear();
  EXPECT_FALSE(plan()) << "asking for certificates without TLS";
}

TEST_F(ServePlanTest, memory_autoIsLeftToTheHost) {
  settings_.memory.reset();
  EXPECT_EQ(plan()->memory, 0U);
}

TEST_F(ServePlanTest, secret_badFileIsAnError) {
  settings_.secret_file = folder_.path("none");
  EXPECT_FALSE(plan());
}

}  // namespace
}  // namespace comex

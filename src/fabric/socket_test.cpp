#include "fabric/socket.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fabric/dial.h"

namespace comex {
namespace {

class SocketTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "comex-socket-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "s").string(); }
  std::filesystem::path folder_;
};

TEST_F(SocketTest, unix_socket_replaces_a_dead_one_but_not_a_living_one_or_a_file) {
  {
    const auto first = listen_unix(path(), 0600);
    ASSERT_TRUE(first);
    const auto second = listen_unix(path(), 0600);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Errc::busy);
  }
  EXPECT_TRUE(std::filesystem::exists(path())) << "as after kill -9";
  EXPECT_TRUE(listen_unix(path(), 0600));
  std::filesystem::remove(path());
  std::ofstream(path()) << "precious";
  EXPECT_FALSE(listen_unix(path(), 0600));
  EXPECT_TRUE(std::filesystem::is_regular_file(path()));
}

TEST_F(SocketTest, unix_socket_without_a_file_leaves_nothing_behind) {
  const std::string name = "@" + path();
  {
    const auto first = listen_unix(name, 0600);
    ASSERT_TRUE(first);
    EXPECT_FALSE(listen_unix(name, 0600));
    EXPECT_TRUE(connect_unix(name));
    first->remove();
  }
  EXPECT_FALSE(connect_unix(name));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(SocketTest, unix_socket_has_its_permissions) {
  const auto listener = listen_unix(path(), 0660);
  ASSERT_TRUE(listener);
  struct stat there {};
  ASSERT_EQ(stat(path().c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 0777, 0660U);
}

TEST_F(SocketTest, path_too_long_is_said) {
  const auto listener = listen_unix("/" + std::string(200, 'x'), 0600);
  ASSERT_FALSE(listener);
  EXPECT_NE(listener.error().message.find("shorter"), std::string::npos);
}

TEST_F(SocketTest, tcp_knows_loopback_and_picks_a_port) {
  const auto local = listen_tcp("127.0.0.1:0");
  ASSERT_TRUE(local);
  EXPECT_TRUE(local->loopback);
  EXPECT_GT(local->port, 0);
  EXPECT_TRUE(connect_tcp("127.0.0.1", local->port, Deadline(Millis(1000))));
  const auto all = listen_tcp("0.0.0.0:0");
  ASSERT_TRUE(all);
  EXPECT_FALSE(all->loopback);
}

TEST_F(SocketTest, nobody_there_says_what_to_do) {
  std::uint16_t port = 0;
  {
    const auto gone = listen_tcp("127.0.0.1:0");
    port = gone->port;
  }
  const auto fd = connect_tcp("127.0.0.1", port, Deadline(Millis(1000)));
  ASSERT_FALSE(fd);
  EXPECT_NE(fd.error().message.find("comex serve"), std::string::npos);
  EXPECT_FALSE(connect_unix(path()));
}

}  // namespace
}  // namespace comex

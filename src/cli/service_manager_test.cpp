#include "cli/service_manager.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "base/fd.h"

namespace comex {
namespace {

class ServiceManagerTest : public ::testing::TestWithParam<bool> {
 protected:
  ~ServiceManagerTest() override { ::unsetenv("NOTIFY_SOCKET"); }
};

TEST_P(ServiceManagerTest, hearsWhatItIsTold) {
  const bool abstract = GetParam();
  const std::string path = abstract ? fmt::format("@comex-test-{}", ::getpid())
                                    : fmt::format("{}comex-{}", ::testing::TempDir(), ::getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  if (abstract) address.sun_path[0] = 0;
  const Fd manager(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  ASSERT_EQ(::bind(manager.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);

  tell_service_manager("READY=1\nSTATUS=lending");

  std::array<char, 64> heard{};
  const ssize_t length = ::recv(manager.get(), heard.data(), heard.size(), 0);
  if (!abstract) ::unlink(path.c_str());
  ASSERT_GT(length, 0);
  EXPECT_EQ(std::string(heard.data(), static_cast<std::size_t>(length)), "READY=1\nSTATUS=lending");
}
INSTANTIATE_TEST_SUITE_P(names, ServiceManagerTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "abstract" : "path"; });

TEST(ServiceManager, isNotNeeded) {
  tell_service_manager("READY=1");
  ::setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
  tell_service_manager("READY=1");
  ::unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace comex

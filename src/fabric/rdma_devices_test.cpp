// Which address is chosen to go out by, and what errors of a device say.
#include "fabric/rdma_devices.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "fabric/rdma_library.h"

namespace comex {
namespace {

sockaddr_storage numbered(const std::string& text, std::uint32_t scope = 0) {
  sockaddr_storage address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_scope_id = scope;
  }
  return address;
}

std::string chosen(const std::vector<sockaddr_storage>& addresses, const std::string& to) {
  const auto there = numbered(to);
  const auto found = choose_source(addresses, reinterpret_cast<const sockaddr&>(there));
  if (!found) return "none";
  char text[INET6_ADDRSTRLEN] = "";
  const bool v4 = found->ss_family == AF_INET;
  ::inet_ntop(found->ss_family,
              v4 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(*found).sin_addr)
                 : &reinterpret_cast<const sockaddr_in6&>(*found).sin6_addr,
              text, sizeof text);
  return text;
}

TEST(RdmaSource, choose_ofTheFamilyOfTheNode) {
  const std::vector addresses{numbered("fe80::1", 3), numbered("10.0.0.5"), numbered("fd00::5")};
  EXPECT_EQ(chosen(addresses, "10.0.0.6"), "10.0.0.5");
  EXPECT_EQ(chosen(addresses, "fd00::6"), "fd00::5");
  EXPECT_EQ(chosen({numbered("10.0.0.5")}, "fd00::6"), "none");
}

// It reaches nobody but neighbours, and those only with the scope that an interface's own has.
TEST(RdmaSource, choose_linkLocalOnlyForSuchANode) {
  const std::vector addresses{numbered("fd00::5"), numbered("fe80::1", 3)};
  EXPECT_EQ(chosen(addresses, "fe80::2"), "fe80::1");
  EXPECT_EQ(chosen({numbered("fe80::1", 3)}, "fd00::6"), "none");
  const auto there = numbered("fe80::2");
  const auto found = choose_source(addresses, reinterpret_cast<const sockaddr&>(there));
  EXPECT_EQ(reinterpret_cast<const sockaddr_in6&>(*found).sin6_scope_id, 3U);
}

// As /sys/class/infiniband is.
class RdmaInterfaces : public ::testing::Test {
 protected:
  RdmaInterfaces() {
    std::string pattern = (std::filesystem::temp_directory_path() / "comex-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~RdmaInterfaces() override { std::filesystem::remove_all(folder_); }
  void file(const std::string& name, const std::string& line) const {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << line << "\n";
  }
  [[nodiscard]] std::set<std::string> of(const std::string& device, unsigned port) const {
    return rdma_interfaces(folder_.string(), device, port);
  }
  std::filesystem::path folder_;
};

// InfiniBand: the GIDs say nothing of addresses.
TEST_F(RdmaInterfaces, of_aCardWithTwoPorts) {
  file("mlx4_0/device/net/ib0/dev_port", "0");
  file("mlx4_0/device/net/ib1/dev_port", "1");
  EXPECT_EQ(of("mlx4_0", 1), std::set<std::string>{"ib0"});
  EXPECT_EQ(of("mlx4_0", 2), std::set<std::string>{"ib1"});
  EXPECT_TRUE(of("mlx4_1", 1).empty());
}

TEST_F(RdmaInterfaces, of_roceWithAVlan) {
  file("mlx5_0/device/net/eth0/dev_port", "0");
  file("mlx5_0/ports/1/gid_attrs/ndevs/0", "eth0");
  file("mlx5_0/ports/1/gid_attrs/ndevs/4", "eth0.7");
  EXPECT_EQ(of("mlx5_0", 1), (std::set<std::string>{"eth0", "eth0.7"}));
}

TEST_F(RdmaInterfaces, of_softRoce) {
  file("rxe0/parent", "eth0");
  EXPECT_EQ(of("rxe0", 1), std::set<std::string>{"eth0"});
}

// A node that refuses a connection has 148 bytes to say why.
TEST(RdmaError, whatCanBeDoneComesFirst) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit little = before;
  little.rlim_cur = std::min<rlim_t>(before.rlim_max, 8 << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &little), 0);
  errno = ENOMEM;
  const std::string said = rdma_error("cannot register 160 KiB of memory for RDMA").message;
  ::setrlimit(RLIMIT_MEMLOCK, &before);
  EXPECT_NE(said.substr(0, 148).find("`ulimit -l unlimited`"), std::string::npos) << said;
  EXPECT_NE(said.substr(0, 148).find("LimitMEMLOCK=infinity"), std::string::npos) << said;
}

}  // namespace
}  // namespace comex

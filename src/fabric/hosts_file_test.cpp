#include "fabric/hosts_file.h"

#include <gtest/gtest.h>

namespace comex {
namespace {

using Addresses = std::vector<std::string>;

constexpr std::string_view kHosts =
    "# static\n"
    "127.0.0.1\tlocalhost\n"
    "\n"
    "::1 localhost ip6-localhost   ip6-loopback\r\n"
    "  10.0.0.5 big.example.org big # bigger\n"
    "10.0.0.6 bigger\n"
    "#10.0.0.7 big\n"
    "10.0.0.8\n"
    "10.0.0.9 last";

TEST(HostsFile, addressesIn_hasThemInTheirOrder) {
  EXPECT_EQ(addresses_in(kHosts, "localhost"), (Addresses{"127.0.0.1", "::1"}));
  EXPECT_EQ(addresses_in(kHosts, "ip6-loopback"), Addresses{"::1"}) << "the end of a line of another system";
  EXPECT_EQ(addresses_in(kHosts, "last"), Addresses{"10.0.0.9"}) << "the end of the file";
}

TEST(HostsFile, addressesIn_takesWholeNamesWhateverTheirCase) {
  EXPECT_EQ(addresses_in(kHosts, "BIG"), Addresses{"10.0.0.5"});
  EXPECT_EQ(addresses_in(kHosts, "Big.Example.org"), Addresses{"10.0.0.5"});
  EXPECT_EQ(addresses_in(kHosts, "bi"), Addresses{});
}

TEST(HostsFile, addressesIn_takesNeitherRemarksNorAddressesForNames) {
  EXPECT_EQ(addresses_in(kHosts, "#"), Addresses{});
  EXPECT_EQ(addresses_in(kHosts, "static"), Addresses{});
  EXPECT_EQ(addresses_in(kHosts, "10.0.0.8"), Addresses{});
  EXPECT_EQ(addresses_in(kHosts, ""), Addresses{});
  EXPECT_EQ(addresses_in("", "localhost"), Addresses{});
}

}  // namespace
}  // namespace comex

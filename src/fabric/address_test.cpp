#include "fabric/address.h"

#include <gtest/gtest.h>

#include "base/fd.h"
#include "fabric/socket.h"

namespace comex {
namespace {

wire::Address v4(int a, int b, int c, int d) {
  wire::Address address;
  address.ip[10] = address.ip[11] = std::byte{0xff};
  address.ip[12] = static_cast<std::byte>(a);
  address.ip[13] = static_cast<std::byte>(b);
  address.ip[14] = static_cast<std::byte>(c);
  address.ip[15] = static_cast<std::byte>(d);
  return address;
}

wire::Address v6(std::uint8_t first, std::uint8_t last) {
  wire::Address address;
  address.ip[0] = std::byte{first};
  address.ip[15] = std::byte{last};
  return address;
}

TEST(Address, texts) {
  EXPECT_EQ(host_of(v4(10, 0, 0, 5)), "10.0.0.5");
  EXPECT_EQ(host_of(v6(0x20, 1)), "2000::1");
}

TEST(Address, what_leads_to_this_machine_is_loopback) {
  EXPECT_TRUE(is_loopback(v4(127, 0, 0, 1)));
  EXPECT_TRUE(is_loopback(v4(127, 9, 9, 9)));
  EXPECT_TRUE(is_loopback(v4(0, 0, 0, 0)));
  EXPECT_TRUE(is_loopback(v6(0, 1)));
  EXPECT_TRUE(is_loopback(v6(0, 0)));
  EXPECT_FALSE(is_loopback(v4(10, 0, 0, 5)));
  EXPECT_FALSE(is_loopback(v6(0x20, 1)));
}

TEST(Address, of_the_other_end) {
  const auto listener = listen_tcp("127.0.0.1:0");
  ASSERT_TRUE(listener);
  const auto socket = connect_tcp("127.0.0.1", listener->port, Deadline(Millis(5000)));
  ASSERT_TRUE(socket);
  const auto address = peer_address(socket->get());
  ASSERT_TRUE(address);
  EXPECT_EQ(host_of(*address), "127.0.0.1");
  EXPECT_EQ(address->port, listener->port);
  EXPECT_FALSE(peer_address(-1));
}

}  // namespace
}  // namespace comex

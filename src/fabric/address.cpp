#include "fabric/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

namespace comex {
namespace {

constexpr std::size_t kMappedAt = 12;  // where an IPv4 address begins in the IPv6 one that stands for it

in6_addr raw(const wire::Address& address) {
  in6_addr ip{};
  std::memcpy(&ip, address.ip.data(), sizeof ip);
  return ip;
}

}  // namespace

std::optional<wire::Address> peer_address(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  wire::Address address;
  if (storage.ss_family == AF_INET) {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    address.ip[kMappedAt - 2] = address.ip[kMappedAt - 1] = std::byte{0xff};
    std::memcpy(&address.ip[kMappedAt], &v4->sin_addr, sizeof v4->sin_addr);
    address.port = ntohs(v4->sin_port);
    return address;
  }
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  if (storage.ss_family != AF_INET6 || v6->sin6_scope_id != 0) return std::nullopt;
  std::memcpy(address.ip.data(), &v6->sin6_addr, address.ip.size());
  address.port = ntohs(v6->sin6_port);
  return address;
}

std::string host_of(const wire::Address& address) {
  const in6_addr ip = raw(address);
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = IN6_IS_ADDR_V4MAPPED(&ip);
  inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? &ip.s6_addr[kMappedAt] : ip.s6_addr, text.data(), text.size());
  return text.data();
}

bool is_loopback(const wire::Address& address) {
  const in6_addr ip = raw(address);
  if (IN6_IS_ADDR_V4MAPPED(&ip) || IN6_IS_ADDR_V4COMPAT(&ip)) {
    return ip.s6_addr[kMappedAt] == 127 || ip.s6_addr[kMappedAt] == 0;
  }
  return IN6_IS_ADDR_LOOPBACK(&ip) || IN6_IS_ADDR_UNSPECIFIED(&ip);
}

}  // namespace comex

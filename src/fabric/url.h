// Pool URLs: where a memory node is, and over which medium.
//   tcp://host:port   tls://host:port   rdma://host:port   unix:///path (shared memory)
//
// unix://@name is a socket that is not in the file system. Each may end in ?domain=NAME: nodes with the same name fail
// together (a rack, a switch), and are not given two copies of one page. For rdma:// there are also, separated by &,
// device=NAME, port=N, gid=N (the device of this machine to go out by, one of its ports, and which of its addresses)
// and tos=N (the type of service, which switches and subnet managers make a service level of).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"

namespace comex {

struct Url {
  enum class Scheme : std::uint8_t { tcp, tls, unix_socket, rdma };
  Scheme scheme = Scheme::tcp;
  std::string host;        // all but unix: a name or address; IPv6 without brackets
  std::uint16_t port = 0;  // all but unix
  std::string path;        // unix
  std::string domain;      // empty: it fails alone

  // rdma: of this machine
  std::string device;  // empty: the one that routes to the node
  std::uint8_t device_port = 1;
  std::optional<std::uint8_t> gid;  // not set: the first that is an address of the node's kind
  std::optional<std::uint8_t> tos;

  [[nodiscard]] std::string text() const;
  friend bool operator==(const Url&, const Url&) = default;
};

inline constexpr std::uint16_t kDefaultPort = 7171;

// Splits "host:port" ("[::1]:7171" for IPv6). The error shows a right one.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
Expected<HostPort> parse_host_port(std::string_view text);

// "tcp://10.0.0.5:7171"; the port may be left out. The error says what is wrong and shows a right one.
Expected<Url> parse_url(std::string_view text);
// A comma-separated list.
Expected<std::vector<Url>> parse_urls(std::string_view text);

}  // namespace comex

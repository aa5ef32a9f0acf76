// Pool URLs: where a memory node is, and over which medium.
//   tcp://host:port   tls://host:port   unix:///path (shared memory)   rdma://host:port (not in this version)
//
// unix://@name is a socket that is not in the file system. Each may end in ?domain=NAME: nodes with the same name fail
// together (a rack, a switch), and are not given two copies of one page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"

namespace comex {

struct Url {
  enum class Scheme : std::uint8_t { tcp, tls, unix_socket };
  Scheme scheme = Scheme::tcp;
  std::string host;        // tcp, tls: a name or address; IPv6 without brackets
  std::uint16_t port = 0;  // tcp, tls
  std::string path;        // unix
  std::string domain;      // empty: it fails alone

  [[nodiscard]] std::string text() const;
  friend bool operator==(const Url&, const Url&) = default;
};

inline constexpr std::uint16_t kDefaultPort = 7171;

// "tcp://10.0.0.5:7171"; the port may be left out. The error says what is wrong and shows a right one.
Expected<Url> parse_url(std::string_view text);
// A comma-separated list.
Expected<std::vector<Url>> parse_urls(std::string_view text);

}  // namespace comex

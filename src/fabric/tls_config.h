// Which certificates a side of a TLS link uses. Paths to PEM files; empty means not set.
#pragma once

#include <string>

namespace comex {

struct TlsClientConfig {
  std::string ca;           // trust only this; empty: the system's store
  std::string certificate;  // present this to nodes that ask for one
  std::string key;
};

struct TlsServerConfig {
  std::string certificate;  // set: the TCP listener speaks TLS
  std::string key;
  std::string client_ca;  // set: clients must present a certificate signed by this
};

}  // namespace comex
